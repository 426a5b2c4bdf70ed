"""Errors of training itself."""

from __future__ import annotations

from hetero.errors import HeteroError


class TrainingError(HeteroError, RuntimeError):
    """Training cannot go on: nothing to train on, or losses that stay infinite."""
