"""`hetero data check`: what is in a data file and what is wrong with it, before a run finds out."""

from hetero.train.data.check.examine import examine
from hetero.train.data.check.findings import Findings, Problem
from hetero.train.data.check.settings import Settings

__all__ = ["Findings", "Problem", "Settings", "examine"]
