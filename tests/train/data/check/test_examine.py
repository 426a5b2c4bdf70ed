"""`hetero data check`: every planted fault is found, with its line."""

from __future__ import annotations

import json

import pytest

from hetero.train.data.check import Settings, examine
from hetero.train.data.check.findings import Findings
from hetero.train.data.sources import open_source
from hetero.train.model import load_tokenizer

pytest.importorskip("datasketch")


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("hetero:tiny-qwen2")


def chat(question, answer="2", **more):
    return {
        "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
        **more,
    }


@pytest.fixture
def check(tmp_path, tokenizer):
    def run(lines, **settings):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(x if isinstance(x, str) else json.dumps(x) + "\n" for x in lines))
        return examine(open_source(str(path), "train"), Settings(tokenizer, **settings))

    return run


def places(found: Findings) -> dict[int, str]:
    return {int(p.place.rsplit(":", 1)[1]): p.kind for p in found.problems}


LONG = "a sentence of rather many words that says nothing much about anything but does so at length "


def test_ten_planted_faults(check):
    found = check(
        [
            chat("1+1"),
            chat("2+2"),
            chat("1+1"),  # 3
            "{not json\n",  # 4
            {"mesages": []},  # 5
            {"messages": [{"role": "usr", "content": "x"}]},  # 6
            chat("caf\u00c3\u00a9"),  # 7
            {"messages": [{"role": "user", "content": "and then?"}]},  # 8
            {"prompt": "one", "completion": ""},  # 9
            {"text": "another kind of row"},  # 10
            chat(LONG * 4),  # 11
            chat(LONG * 4 + "!"),  # 12
            '{"messages": [{"role',  # 13
        ],
        near=0.8,
        max_length=200,
    )
    assert places(found) == {
        3: "duplicate",
        4: "not a row",
        5: "wrong field",
        6: "wrong field",
        7: "suspicious text",
        8: "suspicious text",
        9: "left out",
        10: "mixed kinds",
        11: "too long",
        12: "too long",  # and a near duplicate
        13: "cut-off line",
    }
    assert found.counts["near duplicate"] == 1
    assert found.errors == 4
    assert found.rows == 11  # those that are JSON


def test_mask_of_samples(check):
    found = check([chat("1+1", "2")], assistant_only_loss=True)
    assert found.samples[0].pieces == [
        ("<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n", False),
        ("2<|im_end|>", True),
        ("\n", False),
    ]
    assert sum(count for _, _, count in found.histogram()) == len(found.lengths) == 1
    assert not found.counts


def test_pairs_have_two_examples(check):
    found = check(
        [{"prompt": "1+1=", "chosen": "2", "rejected": "3"}, {"prompt": "", "chosen": "x", "rejected": "x"}]
    )
    assert found.algorithm == "dpo" and len(found.lengths) == 2
    assert places(found) == {2: "left out"}


def test_one_bad_row_does_not_hide_the_next(check):
    row = {"input_ids": [1, 2, 10**6]}
    found = check([row, {"input_ids": [1, 2, 3]}, row])
    assert places(found) == {1: "cannot be encoded", 3: "cannot be encoded"}
    assert found.lengths == [3]


def test_nothing_there(check):
    assert check([]).counts == {"empty": 1}


def test_histogram_covers_all_lengths():
    found = Findings("x", lengths=[1, 5, 5, 1000])
    bars = found.histogram()
    assert (
        sum(count for *_, count in bars) == 4 and bars[0][0] == 1 and bars[-1][1] >= 1000 and len(bars) <= 10
    )
