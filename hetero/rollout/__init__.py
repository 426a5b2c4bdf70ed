"""Sampling completions from a model while it is being trained.

    engine = Engine(model, tokenizer)
    completions = engine.generate([Request(prompt_ids, Sampling(max_new_tokens=256), count=8)])

The built-in :class:`Engine` runs the trainer's own modules: no second copy of the weights, and
log-probabilities that are the trainer's.
"""

from hetero.rollout.engine import Engine
from hetero.rollout.request import Completion, Request
from hetero.rollout.sampling import Sampling

__all__ = ["Completion", "Engine", "Request", "Sampling"]
