import json
import random

import numpy as np
import torch

import hetero
from hetero.train.checkpoint import rng


def _draw() -> tuple:
    return (
        random.random(),
        random.gauss(0, 1),
        np.random.normal(),
        torch.rand(3).tolist(),
        torch.randn(1).item(),
    )


def test_restoring_repeats_the_numbers() -> None:
    device = hetero.device("cpu")
    rng.seed_all(7)
    first = _draw()  # leaves spare normal numbers in the generators of Python and NumPy
    state = json.loads(json.dumps(rng.capture(device)))
    second = _draw()
    rng.seed_all(8)
    assert _draw() != first
    rng.restore(state, device)
    assert _draw() == second
    rng.seed_all(7)
    assert _draw() == first


def test_seeds_beyond_32_bits() -> None:
    rng.seed_all(2**63 - 1)
    first = _draw()
    rng.seed_all(2**63 - 1)
    assert _draw() == first


def test_the_generator_of_another_vendors_device_is_passed_over() -> None:
    device = hetero.device("cpu")
    rng.seed_all(7)
    state = rng.capture(device) | {"device": {"vendor": "ascend", "state": "AAAA"}}
    first = _draw()
    rng.restore(state, device)
    assert _draw() == first


def test_a_devices_own_generator_comes_back() -> None:
    class Device:
        type, vendor, state = "npu", "ascend", torch.arange(16, dtype=torch.uint8)

        def rng_state(self):
            return self.state

        def set_rng_state(self, state):
            self.state = state

    device = Device()
    state = json.loads(json.dumps(rng.capture(device)))
    device.state = None
    rng.restore(state, device)
    assert torch.equal(device.state, torch.arange(16, dtype=torch.uint8))
