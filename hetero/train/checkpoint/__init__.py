"""Checkpoints: everything that makes a resumed run equal, bit for bit, to one that was never interrupted.

A checkpoint is a directory ``checkpoint-<step>`` of safetensors and JSON files only; nothing in it is a
pickle, so loading one runs no code. See :mod:`hetero.train.checkpoint.files` for how it is made whole.
"""

from hetero.train.checkpoint.directory import committed, newest_sound
from hetero.train.checkpoint.files import verify
from hetero.train.checkpoint.lock import RunLock
from hetero.train.checkpoint.store import Checkpointer, Identity

__all__ = ["Checkpointer", "Identity", "RunLock", "committed", "newest_sound", "verify"]
