"""The builtin tiny models: a random Qwen2 or Llama, a tokenizer trained on the spot, nothing downloaded.

They are what `recipes/tiny_sft.yaml`, the tests and a newcomer's first minute run on. Both are exact: a seed
gives the same weights and token ids on every machine, so losses can be compared with recorded numbers.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hetero.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

PREFIX = "hetero:"
NAMES = ("hetero:tiny-qwen2", "hetero:tiny-llama")

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

# ChatML. The generation block holds the assistant's words *and* the stop token, so that an assistant-only
# loss also teaches the model to stop.
CHAT_TEMPLATE = f"""\
{{%- for message in messages -%}}
{{{{- '{START}' + message['role'] + '\\n' -}}}}
{{%- if message['role'] == 'assistant' -%}}
{{%- generation -%}}{{{{- message['content'] + '{END}' -}}}}{{%- endgeneration -%}}
{{%- else -%}}
{{{{- message['content'] + '{END}' -}}}}
{{%- endif -%}}
{{{{- '\\n' -}}}}
{{%- endfor -%}}
{{%- if add_generation_prompt -%}}{{{{- '{START}assistant\\n' -}}}}{{%- endif -%}}
"""


@functools.lru_cache(maxsize=4)
def _trained_bpe(vocab_size: int) -> str:
    """A byte-level BPE of `vocab_size` entries, trained on the builtin arithmetic corpus, as JSON text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from hetero.train.data.builtin import arithmetic

    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (f"user\n{question} assistant\n{answer}" for question, answer, _ in arithmetic())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str()


def tiny_tokenizer(vocab_size: int = 512) -> PreTrainedTokenizerFast:
    """A fresh ChatML tokenizer; training it takes about 0.2 s, once a process for each size.

    Ids 0, 1, 2 are `<|endoftext|>` (padding), `<|im_start|>` and `<|im_end|>` (end of sequence).
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(_trained_bpe(vocab_size)), eos_token=END, pad_token=PAD
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def tiny_model(
    tokenizer: Any,
    kind: str = "qwen2",
    *,
    layers: int = 2,
    hidden: int = 128,
    seed: int = 0,
    scores: bool = False,
) -> PreTrainedModel:
    """A randomly initialised float32 causal LM with tied embeddings, 4 query heads and 2 key-value heads.

    With ``scores`` it is the sequence classifier with one output instead, for rewards.

    Args:
        tokenizer: gives the vocabulary size and the special token ids.
        kind: "qwen2" or "llama".
        layers, hidden: depth and width; the MLP is three times as wide.
        seed: seeds torch's CPU generator for the initialisation. The caller's generator is left as it was.
    """
    import torch
    import transformers

    families = {"qwen2": "Qwen2", "llama": "Llama"}
    if kind not in families:
        raise ModelError(f"there is no builtin model {PREFIX}tiny-{kind}; there are: {', '.join(NAMES)}")
    family, task = families[kind], "ForSequenceClassification" if scores else "ForCausalLM"
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
        num_labels=1 if scores else 2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return getattr(transformers, family + task)(config)
