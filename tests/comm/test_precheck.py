"""What ranks say about a call; the exchange itself is tried in ``checks.py`` with ranks that differ."""

from __future__ import annotations

from hetero.comm import precheck


def test_a_long_description_is_cut_but_still_told_apart() -> None:
    long = "batch_p2p(" + "float32[1] from 0 to 1; " * 100
    one, other = precheck._pack(long + "a"), precheck._pack(long + "b")
    assert len(one) == len(other) == len(precheck._pack("x"))
    assert one != other and precheck._text(one) == precheck._text(other) == long[:240]
    assert precheck._text(precheck._pack("barrier()")) == "barrier()"
