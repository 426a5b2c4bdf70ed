"""Device leaks: code that names one vendor's device where any would do. Found by syntax tree, not by text."""

from hetero.lint.files import Report, check
from hetero.lint.rules import RULES, Finding, check_source

__all__ = ["RULES", "Finding", "Report", "check", "check_source"]
