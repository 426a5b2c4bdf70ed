"""Token ids and labels: equal to TRL's rules, and the traps that masks fall into."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hetero.errors import DataError
from hetero.train.data import builtin
from hetero.train.data.collate import IGNORE
from hetero.train.data.encode import Encoder
from hetero.train.data.formats import Chat, Plain, Tokens
from hetero.train.data.template import ChatTemplate

ROWS = [row["messages"] for row in builtin.rows("hetero:arithmetic?rows=8&seed=0&repeat=3")]
MANY = [m for messages in ROWS[:3] for m in messages]


@pytest.fixture
def encode(tokenizer):
    def encode(example, using=tokenizer, notes=None, **options):
        with ChatTemplate(using) as template:
            encoder = Encoder(using, template, **options)
            (out,) = encoder.encode([example])
        if notes is not None:
            notes.update(encoder.notes)
        if isinstance(out, DataError):
            raise out
        return out.input_ids, out.labels, out.truncated

    return encode


def without_markers(tokenizer):
    tokenizer.chat_template = tokenizer.chat_template.replace("{%- generation -%}", "").replace(
        "{%- endgeneration -%}", ""
    )
    return tokenizer


@pytest.mark.parametrize("messages", [*ROWS, MANY])
def test_ids_and_masks_are_those_of_transformers(encode, tokenizer, messages):
    reference = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    ids, mask = reference["input_ids"], reference["assistant_masks"]
    assert encode(Chat(messages)) == (ids, ids, False)
    labels = [id if on else IGNORE for id, on in zip(ids, mask)]
    assert encode(Chat(messages), assistant_only_loss=True) == (ids, labels, False)
    # the same without {% generation %} in the template, where Transformers gives a mask of zeros
    assert encode(Chat(messages), without_markers(tokenizer), assistant_only_loss=True)[:2] == (ids, labels)
    assert sum(label == tokenizer.eos_token_id for label in labels) == len(messages) // 2


@pytest.mark.parametrize("messages", ROWS[:3])
def test_conversational_prompt_completion(encode, tokenizer, messages):
    prompt = tokenizer.apply_chat_template(messages[:1], add_generation_prompt=True)["input_ids"]
    ids = tokenizer.apply_chat_template(messages)["input_ids"]
    chat = Chat(messages, prompt_turns=1)
    expected = [IGNORE] * len(prompt) + ids[len(prompt) :]
    assert encode(chat) == encode(chat, completion_only_loss=True) == (ids, expected, False)
    assert encode(chat, completion_only_loss=False) == (ids, ids, False)
    both = encode(chat, assistant_only_loss=True)[1]
    assert both == encode(Chat(messages), assistant_only_loss=True)[1]


def test_text_ends_with_one_end_token(encode, tokenizer):
    ids = tokenizer("1 + 1 = 2")["input_ids"]
    assert (
        encode(Plain("1 + 1 = 2"))[0]
        == encode(Plain("1 + 1 = 2<|im_end|>"))[0]
        == [*ids, tokenizer.eos_token_id]
    )


def test_prompt_and_completion_text(encode, tokenizer):
    ids, labels, _ = encode(Plain("What is 1 + 1? 1 + 1 = 2", "What is 1 + 1?"))
    prompt = tokenizer("What is 1 + 1?")["input_ids"]
    assert ids[: len(prompt)] == prompt and labels == [IGNORE] * len(prompt) + ids[len(prompt) :]
    assert labels[-1] == tokenizer.eos_token_id
    assert encode(Plain("ab", "a"), completion_only_loss=False)[1] == encode(Plain("ab", "a"))[0]


def test_token_that_merges_across_the_border(encode, tokenizer):
    """The prompt alone ends in a token that the whole text does not have: training begins before it."""
    notes = {}
    ids, labels, _ = encode(Plain("What is", "Wh"), notes=notes)
    assert ids[:-1] == tokenizer("What is")["input_ids"] and tokenizer("Wh")["input_ids"][0] != ids[0]
    assert labels == ids and notes["merged"] == 1


def test_padding_token_that_is_the_end_token(encode, tokenizer):
    tokenizer.pad_token = tokenizer.eos_token
    assert encode(Chat(ROWS[0]), assistant_only_loss=True)[1][-2] == tokenizer.eos_token_id


def test_multibyte_text_keeps_the_whole_answer(encode, tokenizer):
    """A character of several byte tokens ends the answer: all of them and the stop token are trained on."""
    messages = [{"role": "user", "content": "é"}, {"role": "assistant", "content": "三🙂"}]
    _, labels, _ = encode(Chat(messages), assistant_only_loss=True)
    trained = [label for label in labels if label != IGNORE]
    assert tokenizer.decode(trained) == "三🙂<|im_end|>"


def with_bos(template=None, single="<s> $A"):
    """A tokenizer of words that puts <s> in front, as Llama's does."""
    vocab = {"<s>": 0, "</s>": 1, "<unk>": 2, "a": 3, "b": 4, "user": 5}
    core = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = template
    return tokenizer


def test_beginning_token_once(encode):
    tokenizer = with_bos("{{ bos_token }}{% for m in messages %} {{ m.content }} {% endfor %}{{ eos_token }}")
    assert encode(Chat([{"role": "user", "content": "a"}]), tokenizer)[0] == [0, 3, 1]
    assert encode(Plain("a b"), tokenizer)[0] == [0, 3, 4, 1]
    assert encode(Plain("<s> a b </s>"), tokenizer)[0] == [0, 3, 4, 1]
    assert encode(Plain("a b", "a"), tokenizer)[:2] == ([0, 3, 4, 1], [IGNORE, IGNORE, 4, 1])


def test_beginning_token_once_in_masked_conversations(encode):
    tokenizer = with_bos(
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{% generation %} {{ m.content }} {{ eos_token }}{% endgeneration %}"
        "{% else %} {{ m.content }}{% endif %}{% endfor %}"
    )
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    expected = ([0, 3, 4, 1], [IGNORE, IGNORE, 4, 1], False)
    assert encode(Chat(turns), tokenizer, assistant_only_loss=True) == expected


def test_tokenizer_that_adds_the_end_token_itself(encode):
    tokenizer = with_bos(single="<s> $A </s>")
    assert encode(Plain("a b"), tokenizer)[0] == encode(Plain("a b </s>"), tokenizer)[0] == [0, 3, 4, 1]
    assert encode(Plain("a b", "a"), tokenizer)[1] == [IGNORE, IGNORE, 4, 1]


def test_assistant_turns_of_a_prompt_are_not_trained_on(encode, tokenizer):
    _, labels, _ = encode(Chat(MANY, prompt_turns=5), assistant_only_loss=True)
    trained = [label for label in labels if label != IGNORE]
    assert tokenizer.decode(trained) == MANY[5]["content"] + "<|im_end|>"


def test_stop_token_outside_the_mask_is_noticed(encode, tokenizer):
    notes = {}
    encode(Chat(ROWS[0]), assistant_only_loss=True, notes=notes)
    assert not notes["no_stop"]
    tokenizer.chat_template = tokenizer.chat_template.replace(
        "{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}",
        "{{- message['content'] -}}{%- endgeneration -%}{{- '<|im_end|>' -}}",
    )
    _, labels, _ = encode(Chat(ROWS[0]), tokenizer, assistant_only_loss=True, notes=notes)
    assert tokenizer.eos_token_id not in labels and notes["no_stop"] == 1


def test_truncation_keeps_the_start(encode):
    ids, labels, _ = encode(Chat(ROWS[2]), assistant_only_loss=True)
    assert encode(Chat(ROWS[2]), assistant_only_loss=True, max_length=20) == (ids[:20], labels[:20], True)
    assert encode(Chat(ROWS[2]), max_length=len(ids))[2] is False


def test_token_rows(encode, tokenizer):
    assert encode(Tokens([5, 6], [IGNORE, 6])) == ([5, 6], [IGNORE, 6], False)
    assert encode(Tokens([5, 6], None)) == ([5, 6], [5, 6], False)
    for bad in (-1, len(tokenizer)):
        with pytest.raises(DataError, match=f"input_ids has {bad}"):
            encode(Tokens([5, bad], None))
        with pytest.raises(DataError, match=f"labels has {bad}"):
            encode(Tokens([5, 6], [IGNORE, bad]))


@pytest.mark.parametrize(
    "example, options, part",
    [
        (Chat(ROWS[0]), {"completion_only_loss": True}, "prompt and completion"),
        (Plain("a"), {"completion_only_loss": True}, "prompt and completion"),
        (Plain("a"), {"assistant_only_loss": True}, "conversations"),
        (Tokens([1], None), {"assistant_only_loss": True}, "labels or a mask"),
    ],
)
def test_losses_that_do_not_exist_for_the_rows(encode, example, options, part):
    with pytest.raises(DataError, match=part):
        encode(example, **options)


def test_slow_tokenizers_get_the_same_mask(encode, tokenizer):
    expected = encode(Chat(MANY), assistant_only_loss=True)

    class Slow:
        """The same tokenizer without offsets."""

        is_fast = False

        def __getattr__(self, name):
            return getattr(tokenizer, name)

        def __call__(self, text, **options):
            assert "return_offsets_mapping" not in options
            return tokenizer(text, **options)

    assert encode(Chat(MANY), Slow(), assistant_only_loss=True) == expected
