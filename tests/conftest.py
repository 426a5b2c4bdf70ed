"""Fixtures shared by all tests."""

from __future__ import annotations

import os

# Before torch is imported: tests compare numbers, and nothing may go to the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch


@pytest.fixture
def generator() -> torch.Generator:
    """Fresh random inputs for every run; the seed is in the failure report through ``-l``."""
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    return torch.Generator().manual_seed(seed)
