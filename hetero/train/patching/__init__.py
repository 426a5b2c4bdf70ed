"""Exchanging the parts of a Transformers model for `hetero.ops`, each exchange checked and reversible."""

from hetero.train.patching.patch import patch, patched, unpatch
from hetero.train.patching.report import PatchReport

__all__ = ["PatchReport", "patch", "patched", "unpatch"]
