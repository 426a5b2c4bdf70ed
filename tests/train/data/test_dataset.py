"""`build`: from a recipe to examples and an honest report."""

import json

import datasets
import pytest

from hetero.errors import DataError
from hetero.train.data.collate import IGNORE, collate, count_label_tokens
from hetero.train.data.dataset import build

USER = {"role": "user", "content": "What is 1 + 2?"}
BOT = {"role": "assistant", "content": "1 + 2 = 3"}


@pytest.fixture
def data(tmp_path, recipe, tokenizer):
    def data(rows, split="train", tail="", **keys):
        path = tmp_path / "d.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
        return build(recipe(dataset_name=str(path), **keys), tokenizer, split)

    return data


def test_golden_rows(recipe, tokenizer):
    examples, report = build(recipe(dataset_name="hetero:arithmetic?rows=8&seed=0&repeat=3"), tokenizer)
    assert (len(examples), report.kept, report.tokens, report.label_tokens, report.longest) == (
        8,
        8,
        224,
        216,
        33,
    )
    assert sum(len(example["input_ids"]) for example in examples) == 224
    assert all(
        set(example) == {"input_ids", "labels"} and isinstance(example["labels"][0], int)
        for example in examples
    )
    assert examples[-1] == examples[7] and examples[2:4] == [examples[2], examples[3]]
    with pytest.raises(IndexError):
        examples[8]


def test_same_examples_from_every_source_and_layout(tmp_path, recipe, tokenizer):
    chats = [{"messages": [USER, BOT]}, {"messages": [USER, BOT, USER, BOT | {"content": "still 3"}]}]
    share = [
        {
            "conversations": [
                {"from": {"user": "human", "assistant": "gpt"}[m["role"]], "value": m["content"]}
                for m in row["messages"]
            ]
        }
        for row in chats
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in chats))
    (tmp_path / "b.json").write_text(json.dumps(share))
    datasets.Dataset.from_list(chats).to_parquet(tmp_path / "c.parquet")
    datasets.DatasetDict(train=datasets.Dataset.from_list(share)).save_to_disk(tmp_path / "d")
    built = [
        build(recipe(dataset_name=str(tmp_path / name), assistant_only_loss=True), tokenizer)[0][:]
        for name in ("a.jsonl", "b.json", "c.parquet", "d")
    ]
    assert built[0] == built[1] == built[2] == built[3] and len(built[0]) == 2


def test_alpaca_is_prompt_completion(data):
    alpaca, _ = data([{"instruction": "What is 1 + 2?", "input": "", "output": "1 + 2 = 3"}])
    explicit, _ = data([{"prompt": [USER], "completion": [BOT]}])
    assert alpaca[:] == explicit[:] and alpaca[0]["labels"][0] == IGNORE


def test_counts_of_what_happened(data):
    rows = [
        {"prompt": [USER], "completion": [BOT]},
        {"prompt": [USER], "completion": [BOT | {"content": "1 + 2 = 3 " * 9}]},
        {"prompt": [USER | {"content": "x " * 80}], "completion": [BOT]},
        {"prompt": [USER], "completion": []},
    ]
    examples, report = data(rows, tail='{"prompt": [', max_length=40)
    assert (report.total, report.kept, report.truncated, len(examples)) == (4, 2, 1, 2)
    assert report.dropped == {"nothing to train on within max_length 40": 1, "empty completion": 1}
    assert report.longest == 40
    text = report.summary()
    for part in (
        "2 of 4 rows",
        "1 rows cut to max_length 40",
        "d.jsonl:3",
        "d.jsonl:4",
        "d.jsonl:5",
        "cut off",
        "skipped",
    ):
        assert part in text
    batch = collate(examples, 0)
    assert count_label_tokens(batch) == report.label_tokens
    assert int(batch["attention_mask"].sum()) == report.tokens


def test_packing_keeps_every_token(data):
    rows = [{"messages": [USER, BOT | {"content": "1 + 2 = 3" * (1 + i % 4)}]} for i in range(30)]
    plain, _ = data(rows, assistant_only_loss=True)
    packed, report = data(rows, assistant_only_loss=True, packing=True, max_length=128)
    assert (
        report.packed_rows == len(packed) < 30
        and f"packed into {len(packed)} rows of 128" in report.summary()
    )
    assert max(packed.lengths()) <= 128 and sum(packed.lengths()) == report.tokens
    documents = []
    for row in packed:
        start = 0
        for size in row["seq_lengths"]:
            documents.append((row["input_ids"][start : start + size], row["labels"][start : start + size]))
            start += size
        assert start == len(row["input_ids"])
    assert sorted(documents) == sorted((example["input_ids"], example["labels"]) for example in plain)
    assert count_label_tokens(collate(packed[:], 0)) == report.label_tokens
    assert data(rows, assistant_only_loss=True, packing=True, max_length=128)[0][:] == packed[:]


def test_evaluation_data(tmp_path, recipe, tokenizer):
    with pytest.raises(DataError, match="no evaluation data"):
        build(recipe(), tokenizer, "eval")
    test = recipe(dataset_test_split="test", packing=True)
    examples, report = build(test, tokenizer, "eval")
    assert report.packed_rows is None and report.split == "test"
    assert examples[:] != build(recipe(), tokenizer)[0][:]
    (tmp_path / "d.jsonl").write_text(json.dumps({"text": "a"}) + "\n")
    with pytest.raises(DataError, match="evaluate on the training data"):
        build(recipe(dataset_name=str(tmp_path / "d.jsonl"), dataset_test_split="test"), tokenizer, "eval")


@pytest.mark.parametrize(
    "rows, keys, parts",
    [
        ([], {}, ["d.jsonl has no rows"]),
        ([{"messages": [USER, {"content": "a"}]}], {}, ["d.jsonl:1: messages[1] has no role"]),
        (
            [{"messages": [USER, BOT]}, {"text": "a"}],
            {},
            ["d.jsonl:2: another kind of row (Plain)", "d.jsonl:1 (Chat)"],
        ),
        ([{"messages": [USER, BOT]}], {"completion_only_loss": True}, ["d.jsonl:1: completion_only_loss"]),
        (
            [{"text": "a"}],
            {"assistant_only_loss": True},
            ["d.jsonl:1: assistant_only_loss needs conversations"],
        ),
        (
            [{"messages": [USER]}],
            {"assistant_only_loss": True},
            ["no row of", "1 nothing to train on", "role assistant"],
        ),
        (
            [{"prompt": "p " * 50, "completion": "c"}],
            {"max_length": 8},
            ["no row of", "d.jsonl:1", "raise max_length"],
        ),
        ([{"prompt": "p", "completion": ""}], {}, ["no row of", "1 empty completion (first: "]),
    ],
)
def test_what_stops_a_run(data, rows, keys, parts):
    with pytest.raises(DataError) as caught:
        data(rows, **keys)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert str(caught.value).count("d.jsonl:1: ") <= 1


def test_only_a_half_written_line(data):
    with pytest.raises(DataError, match=r"has no rows; .*d\.jsonl:1: the last line is cut off"):
        data([], tail='{"text": "a')


def test_warnings_reach_the_report(data, tokenizer):
    _, report = data([{"prompt": "Wh", "completion": "at is"}])
    assert "1 rows the prompt's last tokens change" in report.warnings[0]
    tokenizer.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
    _, report = data([{"messages": [USER, BOT]}], assistant_only_loss=True)
    assert "no stop token is trained on" in report.warnings[0]


def test_hash_tells_that_the_data_changed(data):
    first = data([{"text": "a"}])[1].content_hash
    assert first == data([{"text": "a"}])[1].content_hash != data([{"text": "b"}])[1].content_hash
