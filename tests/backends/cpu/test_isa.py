import pytest

from hetero.backends.cpu import isa
from hetero.errors import BackendError

ZEN1 = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 avx avx2 fma\n"
SKYLAKE = ZEN1.replace("fma", "fma avx512f avx512bw avx512dq avx512vl avx512cd")
KNL = ZEN1.replace("fma", "fma avx512f avx512cd avx512er avx512pf")
ARM = "processor\t: 0\nFeatures\t: fp asimd bf16\n"


@pytest.mark.parametrize(
    "text, levels",
    [
        (ZEN1, ["avx2", "generic"]),
        (SKYLAKE, ["avx512", "avx2", "generic"]),
        (KNL, ["avx2", "generic"]),  # AVX-512 without bw, dq and vl is not enough
        (ZEN1.replace(" fma", ""), ["generic"]),
        (ARM, ["generic"]),
        ("", ["generic"]),
    ],
)
def test_levels(text, levels):
    assert isa.supported(isa.flags(text)) == levels


def test_model_name():
    assert isa.model_name(ZEN1) == "AMD EPYC" and isa.model_name(ARM) == ""


def test_the_variable_lowers_the_level_and_cannot_raise_it(monkeypatch):
    monkeypatch.setattr(isa, "cpuinfo", lambda: ZEN1)
    monkeypatch.delenv("HETERO_CPU_ISA", raising=False)
    assert isa.detect() == "avx2"
    monkeypatch.setenv("HETERO_CPU_ISA", "generic")
    assert isa.detect() == "generic"
    monkeypatch.setenv("HETERO_CPU_ISA", "avx512")
    with pytest.raises(BackendError, match="this CPU cannot run it; choose from avx2, generic"):
        isa.detect()
    monkeypatch.setenv("HETERO_CPU_ISA", "sse9")
    with pytest.raises(BackendError, match="there is no such level"):
        isa.detect()
