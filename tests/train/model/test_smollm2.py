"""GGUF files become ordinary folders: with the same logits, whole, and only once."""

from __future__ import annotations

import json

import pytest
import torch

from hetero.errors import ModelError
from hetero.train.model.smollm2 import RECORD, convert
from hetero.train.model.tiny import tiny_model, tiny_tokenizer

gguf = pytest.importorskip("gguf")


def _permuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of a query or key projection in GGUF's order: rotary pairs are neighbours there, not halves."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A two-layer Llama as a GGUF file: 2-D weights in 8 bits, the others in float32, and its tokenizer."""
    folder = tmp_path_factory.mktemp("package")
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, "llama", hidden=64, seed=2)
    writer = gguf.GGUFWriter(folder / "tiny.gguf", "llama")
    writer.add_block_count(2)
    writer.add_context_length(1024)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(192)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(16)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(len(tokenizer))
    bpe = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(sorted(bpe["vocab"], key=bpe["vocab"].get))
    writer.add_token_types([3, 3, 3] + [1] * (len(tokenizer) - 3))
    writer.add_token_merges([" ".join(pair) for pair in bpe["merges"]])
    writer.add_eos_token_id(2)
    writer.add_bos_token_id(1)
    writer.add_pad_token_id(0)
    writer.add_chat_template(tokenizer.chat_template)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, 2)
    expected = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        stem, suffix = name.rsplit(".", 1)
        heads = {"q_proj": 4, "k_proj": 2}.get(stem.rsplit(".", 1)[-1])
        stored = (_permuted(tensor, heads) if heads else tensor).numpy()
        if tensor.dim() == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            packed = gguf.quants.quantize(stored, kind)
            writer.add_tensor(f"{names.get_name(stem)}.{suffix}", packed, raw_dtype=kind)
            values = torch.from_numpy(gguf.quants.dequantize(packed, kind))
            if heads:  # back to halves
                rows, width = values.shape
                values = (
                    values.reshape(heads, rows // heads // 2, 2, width).transpose(1, 2).reshape(rows, width)
                )
            expected[name] = values
        else:
            writer.add_tensor(f"{names.get_name(stem)}.{suffix}", stored)
            expected[name] = tensor
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict({**expected, "lm_head.weight": expected["model.embed_tokens.weight"]})
    return folder, model


def test_the_folder_is_an_ordinary_model(source, load, tmp_path):
    folder, expected = source
    made = convert(folder, tmp_path / "out")
    assert made == tmp_path / "out"
    model, tokenizer = load(made)
    ids = torch.randint(3, 500, (2, 9), generator=torch.Generator().manual_seed(0))
    assert torch.allclose(model.eval()(ids).logits, expected(ids).logits, atol=1e-5)
    assert tokenizer.encode("What is 12 + 30?") == tiny_tokenizer().encode("What is 12 + 30?")
    assert tokenizer.chat_template == tiny_tokenizer().chat_template
    assert "quantization_config" not in json.loads((made / "config.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_it_is_made_once_and_again_when_damaged(source, tmp_path):
    out = convert(source[0] / "tiny.gguf", tmp_path / "out")
    weights = out / "model.safetensors"
    data, made = weights.read_bytes(), weights.stat().st_mtime_ns
    convert(source[0], out)
    assert weights.stat().st_mtime_ns == made
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    convert(source[0], out)
    assert weights.read_bytes() == data
    convert(source[0], out, dtype=torch.bfloat16)
    assert json.loads((out / RECORD).read_text())["dtype"] == "torch.bfloat16"
    assert weights.stat().st_size < 0.6 * len(data)


def test_refusals(source, tmp_path):
    with pytest.raises(ModelError, match="holds 0 GGUF files"):
        convert(tmp_path, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelError, match="was not made by this conversion"):
        convert(source[0], tmp_path / "mine")
    (tmp_path / "cut.gguf").write_bytes((source[0] / "tiny.gguf").read_bytes()[:200])
    with pytest.raises(ModelError, match=r"cannot read .*cut\.gguf"):
        convert(tmp_path / "cut.gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
