"""A reward model as a reward: the scores of Transformers itself, and folders that are none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hetero.errors import RecipeError
from hetero.train.model.tiny import tiny_model, tiny_tokenizer
from hetero.train.rewards import load

PROMPT = [{"role": "user", "content": "What is 2 + 2?"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reward")
    tokenizer = tiny_tokenizer()
    model = tiny_model(tokenizer, seed=3, scores=True)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_scores_are_those_of_transformers(folder: Path) -> None:
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    answers = ["4", "It is 4, as everybody knows.", "5"]
    expected = []
    for answer in answers:
        text = tokenizer.apply_chat_template(
            [*PROMPT, {"role": "assistant", "content": answer}], tokenize=False
        )
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            expected.append(model(input_ids=ids).logits.item())
    reward = load(str(folder))
    completions = [[{"role": "assistant", "content": answer}] for answer in answers]
    scores = reward(prompts=[PROMPT] * 3, completions=completions, answer=["4"] * 3)
    assert scores == pytest.approx(expected, rel=1e-4, abs=1e-5) and len(set(scores)) == 3
    text_scores = reward(prompts=["2+2=", "2+2="], completions=["4", "5"])
    assert len(text_scores) == 2 and text_scores[0] != text_scores[1]


def test_a_language_model_is_no_reward_model(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tiny_model(tokenizer, seed=3).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(RecipeError, match="one output|lack score.weight"):
        load(str(tmp_path))
