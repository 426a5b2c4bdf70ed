"""`hetero.patch` on every family: same numbers, nothing else changed, all of it reversible."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from hetero.errors import ModelError
from hetero.train.patching import patch, patched, unpatch

# norms outside fused adds are counted as rms_norm; a layer's fused norm is counted there too
EXPECTED = {
    "llama": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "qwen2": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "qwen3": {"rms_norm": 9, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "mistral": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "gemma": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "geglu": 2, "attention": 2},
    "gemma2": {"rms_norm": 9, "fused_add_rms_norm": 2, "rope": 2, "geglu": 2},
    "gemma3_text": {"rms_norm": 13, "fused_add_rms_norm": 2, "rope": 2, "geglu": 2, "attention": 2},
    "phi3": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "phi": {"layer_norm": 3, "rope": 2, "attention": 2},
    "granite": {"rms_norm": 5, "rope": 2, "swiglu": 2, "attention": 2},
    "cohere": {"layer_norm": 3, "rope": 2, "swiglu": 2, "attention": 2},
    "glm": {"rms_norm": 5, "fused_add_rms_norm": 2, "rope": 2, "swiglu": 2, "attention": 2},
    "qwen3_moe": {"rms_norm": 9, "rope": 2, "attention": 2},
}


@pytest.fixture
def run(tokens):
    def run(model: nn.Module) -> dict[str, torch.Tensor]:
        """Logits and the gradients of a smooth loss of them, in float32."""
        model.zero_grad()
        logits = model(tokens(2, 11), use_cache=False).logits
        logits.float().square().mean().backward()
        values = {name: p.grad.float().clone() for name, p in model.named_parameters() if p.grad is not None}
        return {"logits": logits.detach().float(), **values}

    return run


def error(values: dict[str, torch.Tensor], exact: dict[str, torch.Tensor]) -> dict[str, float]:
    assert values.keys() == exact.keys()
    return {name: float((values[name] - exact[name]).norm() / exact[name].norm()) for name in exact}


@pytest.mark.parametrize("family", EXPECTED)
def test_same_logits_and_gradients(build, run, family):
    model = build(family)
    before = run(model)
    report = patch(model)
    assert dict(report.swapped) == EXPECTED[family], str(report)
    after = error(run(model), before)
    # Both are float32 with sums in other orders: a few hundred operations deep, some units of 1.2e-7 each.
    assert max(after.values()) < 2e-5, after

    # bf16: at most as far from the float32 numbers as the unpatched model is, with a margin for luck.
    half = build(family).bfloat16()
    own = error(run(half), before)
    patch(half)
    ours = error(run(half), before)
    # Of a key's bias only rounding is left: what it adds to all scores of a query, the softmax takes away again.
    worse = {n: (ours[n], own[n]) for n in own if ours[n] > 1.5 * own[n] + 0.004 and "k_proj.bias" not in n}
    assert not worse


def test_what_was_not_patched_is_reported_with_the_reason(build):
    text = str(patch(build("qwen3_moe")))
    assert "Qwen3MoeExperts x2: its projections are stacked parameters" in text
    assert "Qwen3MoeDecoderLayer x2: its feed-forward block is not a patched gated MLP" in text
    text = str(patch(build("granite")))  # its layers scale what they add
    assert "GraniteDecoderLayer x2: the layer with hetero.ops.fused_add_rms_norm" in text
    text = str(patch(build("phi3", resid_pdrop=0.1)))
    assert "Phi3DecoderLayer x2: it drops out" in text


def test_a_module_that_only_looks_right_is_refused():
    class HalfNorm(nn.Module):  # normalises by half the root mean square
        def __init__(self):
            super().__init__()
            self.weight, self.eps = nn.Parameter(torch.ones(16)), 1e-6

        def forward(self, x):
            return 2 * self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    class GatedNorm(HalfNorm):  # right while nobody passes a gate
        def forward(self, x, gate=None):
            return super().forward(x) / 2

    class Broken(HalfNorm):
        def forward(self, x):
            raise TypeError("no")

    class ReluMLP(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate_proj, self.up_proj, self.down_proj = (nn.Linear(8, 8) for _ in range(3))
            self.act_fn = nn.ReLU()

        def forward(self, x):
            return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))

    class SwappedMLP(ReluMLP):  # silu on the wrong side
        def forward(self, x):
            return self.down_proj(self.gate_proj(x) * nn.functional.silu(self.up_proj(x)))

    model = nn.ModuleList([HalfNorm(), GatedNorm(), Broken(), ReluMLP(), SwappedMLP()])
    report = patch(model)
    assert not report.swapped
    reasons = dict(report.kept.keys())
    assert "something else" in reasons["HalfNorm"]
    assert "takes more than the hidden states" in reasons["GatedNorm"]
    assert "TypeError: no" in reasons["Broken"]
    assert "none of silu, gelu" in reasons["ReluMLP"] and "none of silu, gelu" in reasons["SwappedMLP"]


@pytest.mark.parametrize("eps", [1e-5, 1e-6])
@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_norm_arguments_are_recognised(build, family, eps):
    model = build(family, rms_norm_eps=eps)
    patch(model)
    spec = model.model.norm.hetero
    assert (spec.eps, spec.offset, spec.casting) == (
        (eps, 0.0, "llama") if family == "llama" else (eps, 1.0, "gemma")
    )


def test_names_and_other_models_are_untouched(build):
    model, other = build("qwen3"), build("qwen3")
    names, ours = list(model.state_dict()), dict(model.named_parameters())
    patch(model)
    assert list(model.state_dict()) == names
    assert all(ours[name] is p for name, p in model.named_parameters())
    assert "Qwen3RMSNorm[hetero]" in str(model) and "[hetero]" not in str(other)
    assert patch(model).swapped == {} and patch(model).kept == {}
    assert sum(patch(other).swapped.values()) == 17


def test_unpatch_restores_bit_for_bit(build, run):
    model = build("gemma2")
    classes, before = [type(m) for m in model.modules()], run(model)
    with patched(model) as report:
        assert sum(report.swapped.values()) == 15
        assert [type(m) for m in model.modules()] != classes
    assert [type(m) for m in model.modules()] == classes
    assert all(torch.equal(a, b) for a, b in zip(run(model).values(), before.values()))
    assert not any(hasattr(m, "hetero") for m in model.modules())


def test_unpatch_refuses_a_module_wrapped_since(build):
    model = build("llama")
    patch(model)
    norm = model.model.norm
    norm.__class__ = type("Sharded", (type(norm),), {})  # what fully_shard does
    with pytest.raises(ModelError, match="wrapped since"):
        unpatch(model)


def test_meta_device_is_refused():
    with torch.device("meta"):
        model = nn.Sequential(nn.LayerNorm(4))
    with pytest.raises(ModelError, match="meta"):
        patch(model)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_are_patched_and_independent(build, run, duplicate):
    model = build("qwen2")
    patch(model)
    twin = duplicate(model)
    assert str(twin) == str(model)
    expected = run(model)
    assert all(torch.equal(a, b) for a, b in zip(run(twin).values(), expected.values()))
    with torch.no_grad():
        twin.model.norm.weight.zero_()
    assert torch.equal(run(model)["logits"], expected["logits"])
    unpatch(twin)
    assert "[hetero]" in str(model) and "[hetero]" not in str(twin)


def test_conversion_after_patching(build, run):
    model, half = build("gemma"), build("gemma").bfloat16()
    patch(model)
    patch(half)
    # To bf16 after patching or before: the same casts, hence the same bits.
    assert torch.equal(run(model.bfloat16())["logits"], run(half)["logits"])


def test_gradient_checkpointing_recomputes_the_patched_layers(build, run):
    model = build("llama").train()
    patch(model)
    plain, calls = run(model), []
    model.model.layers[0].self_attn.register_forward_hook(lambda *_: calls.append(1))
    enable = getattr(model, "activation_checkpointing_enable", model.gradient_checkpointing_enable)
    enable({"use_reentrant": False})
    checkpointed = run(model)
    assert len(calls) == 2
    assert all(torch.equal(a, b) for a, b in zip(checkpointed.values(), plain.values()))


def test_generation_with_a_cache(build, tokens):
    model = build("qwen3")
    options = {"max_new_tokens": 8, "do_sample": False, "use_cache": True}
    expected = model.generate(tokens(1, 5), **options)
    patch(model)
    assert torch.equal(model.generate(tokens(1, 5), **options), expected)


def test_a_norm_wrapped_or_hooked_after_patching_is_called_as_a_module(build, run):
    model = build("llama")
    patch(model)
    expected = run(model)["logits"]
    norm = model.model.layers[0].post_attention_layernorm
    handle = norm.register_forward_hook(lambda module, args, output: output * 0)
    assert not torch.allclose(run(model)["logits"], expected)
    handle.remove()
    assert torch.equal(run(model)["logits"], expected)


def test_autocast(build, run):
    model = build("llama")
    with torch.autocast("cpu", torch.bfloat16):
        expected = run(model)["logits"]
        patch(model)
        assert (run(model)["logits"] - expected).norm() <= 0.02 * expected.norm()


def test_compile_sees_the_rotary_op(build):
    model, graphs = build("llama"), []
    patch(model)
    attention, hidden = model.model.layers[0].self_attn, torch.randn(1, 5, 32)
    inputs = {
        "hidden_states": hidden,
        "position_embeddings": model.model.rotary_emb(hidden, torch.arange(5)[None]),
        "attention_mask": None,
    }

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(attention, backend=backend, fullgraph=True)
    with torch.no_grad():
        assert torch.allclose(compiled(**inputs)[0], attention(**inputs)[0], atol=1e-6)
    assert any("hetero.rope" in str(node.target) for graph in graphs for node in graph.graph.nodes)


@pytest.mark.parametrize("order", ["patch first", "lora first"])
def test_lora(build, run, order):
    from peft import LoraConfig, get_peft_model

    def wrapped(do_patch: bool):
        model = build("qwen2")
        config = LoraConfig(
            r=4, target_modules="all-linear", modules_to_save=["post_attention_layernorm"], lora_dropout=0.0
        )
        if do_patch and order == "patch first":
            assert patch(model).swapped
        with torch.random.fork_rng():
            torch.manual_seed(1)
            model = get_peft_model(model, config)
            for name, parameter in model.named_parameters():
                if "lora_B" in name or "modules_to_save" in name:
                    nn.init.normal_(parameter, std=0.1)
        if do_patch and order == "lora first":
            assert patch(model).swapped["swiglu"] == 2
        return model

    plain, ours = wrapped(False), wrapped(True)
    assert list(plain.state_dict()) == list(ours.state_dict())
    before, after = run(plain), run(ours)
    assert any("lora_A" in name for name in after) and any("modules_to_save" in name for name in after)
    assert max(error(after, before).values()) < 2e-5
