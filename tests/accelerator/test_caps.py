import pytest

from hetero.accelerator.caps import CAP_NAMES, Cap, Caps
from hetero.accelerator.peaks import Peak


def test_unknown_is_not_yes():
    caps = Caps()
    for name, cap in caps.items():
        assert cap.state == "unknown" and not cap and not cap.usable, name


def test_only_a_plain_yes_is_true():
    assert Cap("yes")
    emulated = Cap("emulated", why="no units")
    assert not emulated and emulated.usable
    assert not Cap("no", why="no units")


@pytest.mark.parametrize("state", ["no", "emulated"])
def test_a_refusal_needs_a_reason(state):
    with pytest.raises(ValueError, match="must say why"):
        Cap(state)


def test_unknown_state_is_refused():
    with pytest.raises(ValueError, match="'maybe'"):
        Cap("maybe")


def test_text_has_value_and_reason():
    assert str(Cap("yes", value=("float8_e4m3fn", "float8_e5m2"))) == "yes (float8_e4m3fn, float8_e5m2)"
    assert str(Cap("no", why="too old")) == "no: too old"


def test_names_match_the_fields():
    assert tuple(name for name, _ in Caps().items()) == CAP_NAMES


def test_a_peak_that_is_not_recorded_is_unknown_not_zero():
    caps = Caps(peaks={"bf16": Peak(1e12, "FLOP/s", "measured", "our own matmul")})
    assert caps.peak("bf16").value == 1e12
    assert caps.peak("fp8").kind == "unknown" and caps.peak("fp8").value is None and not caps.peak("fp8")
