"""Which part of a rendered conversation the assistant wrote."""

import pytest

from hetero.errors import DataError
from hetero.train.data.formats import Chat
from hetero.train.data.template import ChatTemplate, common_prefix
from hetero.train.model.tiny import CHAT_TEMPLATE

PLAIN = CHAT_TEMPLATE.replace("{%- generation -%}", "").replace("{%- endgeneration -%}", "")
# Thinking models: the last assistant turn gets an empty think block, earlier ones none; without thinking the
# generation prompt supplies it.
THINKING = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
    "{% if m.role == 'assistant' and loop.last %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}"
    "{{ m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% if enable_thinking is false %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}"
)


def chat(*contents, system=None, **options):
    messages = [{"role": r, "content": c} for r, c in zip(("user", "assistant") * 9, contents)]
    return Chat(([{"role": "system", "content": system}] if system else []) + messages, **options)


@pytest.fixture
def spans(tokenizer):
    def spans(template, conversation, **variables):
        tokenizer.chat_template = template
        with ChatTemplate(tokenizer, variables) as rendering:
            (out,) = rendering.render([conversation], spans=True, prompts=False)
        if isinstance(out, DataError):
            raise out
        return [out.text[start:end] for start, end in out.spans]

    return spans


TALK = chat("What is 1 + 1?", "2", "Sure?", "Yes, 2.", system="Be brief.")


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, PLAIN])
def test_turns_with_their_stop_token(spans, template):
    assert spans(template, TALK) == ["2<|im_end|>", "Yes, 2.<|im_end|>"]
    assert spans(template, chat("2", "2", "2", "2")) == ["2<|im_end|>"] * 2
    assert spans(template, chat("only a question")) == []
    odd = chat("q", "answer <|im_end|> quoted", "q", " spaces \n")
    assert spans(template, odd) == ["answer <|im_end|> quoted<|im_end|>", " spaces \n<|im_end|>"]


def test_what_the_generation_prompt_supplies_is_left_out(spans):
    assert spans(THINKING, TALK, enable_thinking=False) == ["2<|im_end|>", "Yes, 2.<|im_end|>"]
    assert spans(THINKING, TALK)[0] == "2<|im_end|>"
    row = chat("q", "a", template_kwargs={"enable_thinking": False})
    assert spans(THINKING, row, enable_thinking=True) == ["a<|im_end|>"]


def test_content_that_the_template_rewrites(spans):
    loud = PLAIN.replace("message['content']", "message['content'] | upper")
    assert spans(loud, chat("q", "yes", "q", "no")) == ["YES<|im_end|>", "NO<|im_end|>"]


def test_conversation_that_the_assistant_begins(spans):
    turns = [{"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "hi"}]
    assert spans(PLAIN, Chat(turns)) == ["Hello!<|im_end|>"]


def test_two_assistant_turns_in_a_row(spans):
    turns = [{"role": r, "content": c} for r, c in (("user", "q"), ("assistant", "a"), ("assistant", "b"))]
    assert spans(PLAIN, Chat(turns)) == ["a<|im_end|>", "b<|im_end|>"]


def test_ambiguity_is_an_error(spans):
    shouting = (
        "{% for m in messages %}{{ (m.content if loop.last else m.content | upper) + '|' }}{% endfor %}"
    )
    with pytest.raises(DataError, match="cannot be told"):
        spans(shouting, chat("q", "a", "r", "b"))
    reversed_ = "{% for m in messages[::-1] %}{{ m.role + m.content }}{% endfor %}"
    with pytest.raises(DataError, match="cannot be told"):
        spans(reversed_, TALK)


def test_markers_that_mark_nothing_are_an_error(spans):
    with pytest.raises(DataError, match="marks nothing"):
        spans(
            "{% for m in messages %}{{ m.content }}{% if m.role == 'bot' %}"
            "{% generation %}x{% endgeneration %}{% endif %}{% endfor %}",
            TALK,
        )


def test_no_template(spans, tokenizer):
    with pytest.raises(DataError, match="chat_template_path"):
        spans(None, TALK)


def test_template_chosen_by_tools(tokenizer):
    tokenizer.chat_template = {"default": "plain", "tool_use": "{{ tools[0].name }}"}
    with ChatTemplate(tokenizer) as rendering:
        chats = [TALK, Chat(TALK.messages, tools=[{"name": "f"}]), TALK]
        assert [out.text for out in rendering.render(chats, spans=False, prompts=False)] == [
            "plain",
            "f",
            "plain",
        ]


def test_prompt_that_ends_with_the_beginning_of_an_answer(tokenizer):
    conversation = chat("q", "It is", prompt_turns=2)
    with ChatTemplate(tokenizer) as rendering:
        chats = [conversation, chat("q", "It is", prompt_turns=1), chat("q", "It is")]
        begun, asked, whole = rendering.render(chats, spans=False, prompts=True)
    assert begun.prompt == begun.text == asked.text == whole.text and whole.prompt is None
    assert asked.prompt.endswith("assistant\n")


def test_common_prefix():
    assert [
        common_prefix(*pair) for pair in (("abc", "abd"), ("ab", "abc"), ("", "x"), ([1, 2], [1, 2]))
    ] == [2, 2, 0, 2]
