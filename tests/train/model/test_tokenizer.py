"""Padding, end token and chat template of a run's tokenizer."""

from __future__ import annotations

import pytest

from hetero.errors import ModelError
from hetero.train.model.tiny import tiny_tokenizer
from hetero.train.model.tokenizer import prepare_tokenizer, read_chat_template


def test_missing_padding_becomes_the_end_token():
    tokenizer = tiny_tokenizer()
    prepare_tokenizer(tokenizer)
    assert tokenizer.pad_token == "<|endoftext|>"  # what is there stays
    tokenizer.pad_token = None
    prepare_tokenizer(tokenizer)
    assert tokenizer.pad_token_id == tokenizer.eos_token_id == 2


def test_end_token():
    tokenizer = tiny_tokenizer()
    prepare_tokenizer(tokenizer, eos_token="<|endoftext|>")
    assert tokenizer.eos_token_id == 0
    tokenizer.eos_token = None
    with pytest.raises(ModelError, match="no end-of-sequence token"):
        prepare_tokenizer(tokenizer)


def test_chat_template_from_file_and_folder(tmp_path):
    file = tmp_path / "chat_template.jinja"
    text = (
        "{% for m in messages %}{%- generation -%}{{ m.content }}{% endgeneration %}{% break %}{% endfor %}"
    )
    file.write_text("\ufeff" + text, encoding="utf-8")
    tokenizer = tiny_tokenizer()
    for path in (file, tmp_path):
        prepare_tokenizer(tokenizer, chat_template_path=str(path))
        assert tokenizer.chat_template == text
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "hi"


def test_bad_templates(tmp_path):
    with pytest.raises(ModelError, match=r"absent\.jinja does not exist"):
        read_chat_template(tmp_path / "absent.jinja")
    file = tmp_path / "bad.jinja"
    file.write_text("{% for m in messages %}\n{{ m.content }\n{% endfor %}")
    with pytest.raises(ModelError, match=r"bad\.jinja line 2"):
        read_chat_template(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelError, match="not UTF-8"):
        read_chat_template(file)
