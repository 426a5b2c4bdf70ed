import re

import pytest
import torch

import hetero
from hetero.lint import replacements


def test_the_longest_prefix_wins():
    assert replacements.module_member("amp.autocast") == replacements.MODULE["amp.autocast"]
    assert replacements.module_member("nvtx.range_push") == replacements.MODULE["nvtx"]
    assert replacements.module_member("something.new") == replacements.MODULE[""]
    assert replacements.module_member("") == replacements.MODULE[""]


@pytest.mark.parametrize("text", [*replacements.MODULE.values(), replacements.METHOD, replacements.GROUP])
def test_what_is_proposed_exists(text):
    device = hetero.device("cpu")
    for attribute in re.findall(r"hetero\.device\(\)\.(\w+)", text):
        assert hasattr(device, attribute), text
    for attribute in re.findall(r"\.memory\(\)\.(\w+)", text):
        assert hasattr(device.memory(), attribute), text
    for attribute in re.findall(r"torch\.accelerator\.(\w+)", text):
        assert hasattr(torch.accelerator, attribute), text
