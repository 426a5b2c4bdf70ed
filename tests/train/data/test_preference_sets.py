"""Preference rows as token ids: where answers begin, what is cut, what is dropped and what stops a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetero.errors import DataError
from hetero.train import recipe
from hetero.train.data.preference_sets import build_judged, build_pairs
from hetero.train.model.tiny import tiny_tokenizer
from tests.train.preferences import judged, pairs, write

TOKENIZER = tiny_tokenizer()
USER, BOT = {"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}


def _build(folder: Path, rows: list[Any], *, whole: bool = False, **keys: Any) -> Any:
    algorithm = "rm" if whole else "dpo"
    loaded = recipe.load(write(folder, rows, algorithm=algorithm, **keys), [])
    return build_pairs(loaded, TOKENIZER, "train", whole=whole)


def _texts(sequence: dict[str, list[int]]) -> tuple[str, str]:
    """Prompt and answer of a sequence."""
    ids, labels = sequence["input_ids"], sequence["labels"]
    start = len(ids) - sum(label != -100 for label in labels)
    assert labels == [-100] * start + ids[start:]
    return TOKENIZER.decode(ids[:start]), TOKENIZER.decode(ids[start:])


def test_answers_follow_the_generation_prompt_and_end_with_a_stop_token(tmp_path: Path) -> None:
    data, report = _build(tmp_path, pairs(2))
    question = pairs(1)[0]["prompt"][0]["content"]
    asked = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    for side in ("chosen", "rejected"):
        answer = pairs(1)[0][side][0]["content"]
        assert _texts(data[0][side]) == (asked, f"{answer}<|im_end|>\n")
    assert (report.total, report.kept, len(data), report.warnings) == (2, 2, 2, [])


def test_plain_text_gets_one_end_token_and_empty_answers_are_kept(tmp_path: Path) -> None:
    data, _ = _build(tmp_path, [{"prompt": "2+2=", "chosen": "4", "rejected": ""}])
    assert _texts(data[0]["chosen"]) == ("2+2=", "4<|im_end|>")
    assert _texts(data[0]["rejected"]) == ("2+2=", "<|im_end|>")


def test_both_answers_begin_at_the_same_token(tmp_path: Path) -> None:
    """Where a token merges across the border in one answer, the other begins there, too."""
    rows = [{"prompt": "What is", "chosen": " 3", "rejected": "olated"}]
    (pair,), _ = _build(tmp_path, rows)
    starts = {
        len(pair[s]["labels"]) - sum(t != -100 for t in pair[s]["labels"]) for s in ("chosen", "rejected")
    }
    assert len(starts) == 1


def test_cut_dropped_and_the_same(tmp_path: Path) -> None:
    long = {"prompt": [{**USER, "content": "2+2? " * 20}], "chosen": [BOT], "rejected": [BOT]}
    same = {"prompt": [USER], "chosen": [BOT], "rejected": [BOT]}
    data, report = _build(tmp_path, [long, *pairs(2), same], max_length=24)
    assert (report.total, report.kept, len(data)) == (4, 3, 3)
    assert "an answer without a token within max_length 24 (first:" in report.dropped_text()
    assert "train.jsonl:1" in report.dropped_text() and report.truncated > 0
    assert max(len(pair[side]["input_ids"]) for pair in data for side in ("chosen", "rejected")) == 24
    assert report.warnings == ["in 1 rows chosen and rejected are the same: there is no preference in them"]


def test_rewards_need_no_prompt(tmp_path: Path) -> None:
    system = {"role": "system", "content": "s"}
    rows = [{"chosen": [USER, BOT], "rejected": [system, USER, BOT], "margin": 0.5}]
    data, _ = _build(tmp_path, rows, whole=True)
    assert data[0]["margin"] == 0.5
    with pytest.raises(DataError, match=r"train.jsonl:1: chosen and rejected have no message in common"):
        _build(tmp_path, [{k: v for k, v in rows[0].items() if k != "margin"}])


def test_a_row_of_another_kind_is_named(tmp_path: Path) -> None:
    rows = [{**pairs(1)[0], "margin": 1.0}, *pairs(2)]
    with pytest.raises(
        DataError, match=r"train.jsonl:2: another kind of row \(Chat\) than .*:1 \(Chat, margin\)"
    ):
        _build(tmp_path, rows, whole=True)
    with pytest.raises(DataError, match=r"train.jsonl:2: another kind of row \(Plain\)"):
        _build(tmp_path, [*pairs(1), {"prompt": "q", "chosen": "a", "rejected": "b"}])


def test_nothing_left_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"2 an answer without a token within max_length 4 .*; raise max_length"
    ):
        _build(tmp_path, pairs(2), max_length=4)


def test_pairs_and_single_answers_are_judged_alike(tmp_path: Path) -> None:
    def build(rows: list[Any]) -> Any:
        return build_judged(recipe.load(write(tmp_path, rows, algorithm="kto"), []), TOKENIZER, "train")

    one, report = build(judged(4))
    two, _ = build(pairs(2))
    assert list(one) == list(two) and [example["label"] for example in one] == [1, 0, 1, 0]
    assert (report.total, report.kept) == (4, 4)
    assert one[-1] == one[3] and one[1:3] == [one[1], one[2]]
    with pytest.raises(IndexError):
        one[4]
