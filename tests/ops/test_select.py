"""Selection: what applies, what is proven, what the user said; and that explain() tells it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import hetero.ops as ops
from hetero.accelerator import Cap, device
from hetero.errors import OpError
from hetero.ops import Impl, Where, conformance, registry
from hetero.ops.definitions import rms_norm as definition
from hetero.ops.definitions import rope as rope_definition

REFERENCE = "hetero.ops.definitions.rms_norm:forward"
BACKWARD = "hetero.ops.definitions.rms_norm:backward"
calls: list[str] = []


def counted(*args):
    calls.append("forward")
    return definition.forward(*args)


def counted_backward(*args):
    calls.append("backward")
    return definition.backward(*args)


HERE = __name__


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Register implementations for one test; conformance records of this machine lie in a scratch folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    conformance.forget()
    added: list[Impl] = []

    def add(**kw):
        kw = {"op": "rms_norm", "name": "mine", "kind": "vendor", "forward": f"{HERE}:counted",
              "backward": f"{HERE}:counted_backward", "vendor": "cpu", **kw}  # fmt: skip
        added.append(Impl(**kw))
        registry.register(added[-1])
        return added[-1]

    calls.clear()
    yield add
    for impl in added:
        registry.unregister(impl)
    conformance.forget()
    registry.refresh()


def prove(impl, tmp_path, *, dtype="float32", directions=("forward", "backward"), version=None):
    path = conformance.user_file("cpu")
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"op": impl.op, "impl": impl.name, "version": version or impl.version, "dtype": dtype}
    rows = [{**row, "arch": device("cpu").arch, "direction": d} for d in directions]
    path.write_text(json.dumps({"schema": 1, "records": rows}))
    conformance.forget()
    registry.refresh()


def chosen(x, direction="forward"):
    return ops.explain("rms_norm", x).as_dict()[direction]["chosen"]


def reason(x, name, direction="forward"):
    trail = ops.explain("rms_norm", x).as_dict()[direction]["trail"]
    return next(v["reason"] for v in trail if v["impl"] == name)


def test_unproven_is_never_picked_but_may_be_pinned(mine):
    mine()
    x = torch.randn(2, 8, requires_grad=True)
    assert chosen(x) != "mine"
    assert "unproven" in reason(x, "mine") and "hetero conform" in reason(x, "mine")
    with ops.use("rms_norm=mine"):
        ops.rms_norm(x).sum().backward()
    assert calls == ["forward", "backward"]


def test_proven_is_picked_for_what_it_is_proven_for(mine, tmp_path):
    impl = mine()
    prove(impl, tmp_path, directions=("forward",))
    x = torch.randn(2, 8)
    assert chosen(x) == "mine" and chosen(x, "backward") != "mine"
    assert chosen(x.bfloat16()) != "mine"
    prove(impl, tmp_path, version="older")
    assert chosen(x) != "mine"


def test_kind_decides_the_order(mine, tmp_path):
    impl = mine(kind="vendor")
    prove(impl, tmp_path)
    names = [v["impl"] for v in ops.explain("rms_norm", torch.randn(2, 8)).as_dict()["forward"]["trail"]]
    assert names[0] == "mine" and names[-1] == "reference"


@pytest.mark.parametrize(
    ("where", "x", "says"),
    [
        (Where(dtypes={torch.float16}), torch.randn(2, 8), "float32 not in {float16}"),
        (Where(last_dim_le=4), torch.randn(2, 8), "last dimension 8 > 4"),
        (Where(last_dim_multiple_of=16), torch.randn(2, 8), "no multiple of 16"),
        (Where(contiguous=True), torch.randn(8, 2).T, "not contiguous"),
        (Where(flags={"casting": {"gemma"}}), torch.randn(2, 8), "casting='llama'"),
        (Where(caps=("graph_capture",)), torch.randn(2, 8), "graph_capture"),
        (Where(also=lambda facts: f"no {facts.last_dim}s today"), torch.randn(2, 8), "no 8s today"),
    ],
)
def test_where_refuses_with_a_reason(mine, where, x, says):
    mine(where=where)
    assert says in reason(x, "mine")
    with ops.use("rms_norm=mine,*"):
        ops.rms_norm(x)
    assert calls == []
    with ops.use("rms_norm=mine"), pytest.raises(OpError, match="leaves nothing that can run") as error:
        ops.rms_norm(x)
    assert says in str(error.value)


def by_rope(q, k, *rest):
    calls.append("rope")
    return rope_definition._rope(q, k, *rest)


def test_a_size_that_the_op_names_is_a_condition_and_part_of_what_is_remembered(mine):
    mine(op="rope", forward=f"{HERE}:by_rope", backward=None, where=Where(sizes_le={"heads": 2}))
    q, table = torch.randn(1, 2, 3, 4), torch.ones(3, 4)
    with ops.use("rope=mine,*"):
        for heads in (2, 3, 2):  # the third call is answered from memory
            ops.rope(q[:, :1].expand(-1, heads, -1, -1), q, table, table)
    assert calls == ["rope", "rope"]
    trail = ops.explain("rope", q[:, :1].expand(-1, 3, -1, -1), q, table, table).as_dict()["forward"]["trail"]
    assert next(v["reason"] for v in trail if v["impl"] == "mine") == "heads 3 > 2"


def test_float64_is_refused_where_a_device_has_none(monkeypatch):
    """The vendor's package would compute it as something else, the reference included."""
    none = replace(device("cpu").caps, fp64=Cap("no", why="it becomes float32"))
    monkeypatch.setattr(device("cpu"), "caps", none)
    registry.refresh()
    with pytest.raises(OpError, match=r"has no float64 \(it becomes float32\): move it to the CPU"):
        ops.rms_norm(torch.randn(2, 8, dtype=torch.float64))
    ops.rms_norm(torch.randn(2, 8))


def test_where_accepts_what_it_should(mine):
    mine(where=Where(dtypes={torch.float32}, last_dim_le=8, last_dim_multiple_of=4, contiguous=True))
    with ops.use("rms_norm=mine"):
        ops.rms_norm(torch.randn(2, 8))
    assert calls == ["forward"]


def test_a_missing_direction_is_another_implementations(mine):
    mine(backward=None)
    x = torch.randn(2, 8, requires_grad=True)
    with ops.use("rms_norm=mine,reference"):
        ops.rms_norm(x).sum().backward()
    assert calls == ["forward"] and x.grad is not None


def test_a_pin_that_does_not_exist_is_an_error():
    with ops.use("rms_norm=tritn"), pytest.raises(OpError, match="has no such implementation"):
        ops.rms_norm(torch.randn(2, 8))


def test_a_whole_policy_is_checked_against_a_device():
    ops.check_policy(device("cpu"))
    with ops.use("rms_norm=npu;rope=reference,npu;swiglu=npu,*"), pytest.raises(OpError) as error:
        ops.check_policy(device("cpu"))
    assert "rms_norm=npu: cpu has" in str(error.value)
    assert "rope" not in str(error.value).split(":", 2)[2] and "\n  swiglu" not in str(error.value)


def test_forbidding_everything_is_an_error():
    names = ",".join(f"-{i.name}" for i in registry.impls("rms_norm"))
    with ops.use(f"rms_norm={names}"), pytest.raises(OpError, match="forbidden by policy"):
        ops.rms_norm(torch.randn(2, 8))


def test_another_vendors_implementation_is_out_of_sight(mine):
    mine(vendor="ascend", name="npu")
    trail = ops.explain("rms_norm", torch.randn(2, 8)).as_dict()["forward"]["trail"]
    assert all(v["impl"] != "npu" for v in trail)


def test_the_choice_is_cached_and_counted(mine):
    mine()
    x = torch.randn(2, 8)
    with ops.use("rms_norm=mine"):
        ops.reset_placement()
        for _ in range(3):
            ops.rms_norm(x)
        (row,) = ops.placement()
        assert row["calls"] == 3 and row["share"] == 1.0
        assert ops.placement_summary() == "rms_norm: 100% mine (float32)"


def test_the_summary_says_why_the_reference_ran():
    ops.reset_placement()
    ops.rms_norm(torch.randn(2, 8, dtype=torch.float64))
    line = ops.placement_summary()
    assert line.startswith("rms_norm: 100% reference (float64")


def test_explain_reads_well_and_needs_no_call(mine):
    mine(where=Where(last_dim_le=4))
    text = str(ops.explain("rms_norm", torch.randn(2, 8)))
    assert "rms_norm(float32[..., 8]) forward on cpu" in text
    assert "x mine" in text and "last dimension 8 > 4" in text and "-> " in text
    assert calls == []


def test_unknown_ops_and_bad_arguments_are_named():
    with pytest.raises(OpError, match="did you mean 'rms_norm'"):
        ops.explain("rms_nrm", torch.randn(2, 8))
    with pytest.raises(OpError, match="weight has shape"):
        ops.explain("rms_norm", torch.randn(2, 8), torch.randn(7))


def test_a_name_is_registered_once(mine):
    mine()
    with pytest.raises(OpError, match="already has an implementation 'mine'"):
        registry.register(Impl("rms_norm", "mine", "vendor", REFERENCE, BACKWARD, vendor="cpu"))
    with pytest.raises(ValueError, match="kind 'fast'"):
        Impl("rms_norm", "x", "fast", REFERENCE)


def test_a_damaged_record_is_named(mine, tmp_path):
    path = conformance.user_file("cpu")
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": 1, "records": [{"op": "rms_norm"}]}')
    conformance.forget()
    mine()
    with pytest.raises(OpError, match="not a conformance record"):
        ops.explain("rms_norm", torch.randn(2, 8))


def test_the_table_lists_every_op():
    rows = registry.table()
    assert {r["op"] for r in rows} == set(registry.ops())
    assert all(r["status"] for r in rows)


def test_a_backend_that_cannot_list_its_ops_breaks_no_other(monkeypatch):
    from hetero.accelerator import registry as backends

    cpu = backends.record("cpu").backend

    def fail():
        raise OSError("libvendor.so: cannot open")

    monkeypatch.setattr(cpu, "ops", fail)
    registry.refresh()
    try:
        with pytest.warns(UserWarning, match="cannot list its ops"):
            assert chosen(torch.randn(2, 8)) == "reference"
        assert any("libvendor.so" in r["status"] for r in registry.table())
    finally:
        monkeypatch.undo()
        registry.refresh()
