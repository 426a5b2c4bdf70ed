import pytest

from hetero.accelerator.peaks import Peak


@pytest.mark.parametrize(
    "fields",
    [
        {"value": 1e12, "kind": "datasheet"},  # no source
        {"value": 1e12, "kind": "unknown", "source": "a table"},
        {"value": None, "kind": "datasheet", "source": "a table"},
        {"value": -1.0, "kind": "measured", "source": "a run"},
        {"value": 1e12, "kind": "guessed", "source": "a run"},
        {"value": 1e12, "kind": "measured", "source": "a run", "unit": "TFLOPS"},
    ],
)
def test_a_figure_that_cannot_be_trusted_is_refused(fields):
    with pytest.raises(ValueError):
        Peak(**fields)


def test_text():
    assert str(Peak(353.9e12, "FLOP/s", "datasheet", "a table")) == "353.9 TFLOP/s (datasheet)"
    assert str(Peak(196e9, "byte/s", "datasheet", "a table")) == "196 Gbyte/s (datasheet)"
    assert str(Peak()) == "unknown"
