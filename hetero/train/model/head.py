"""The language-model head, taken apart so that losses can be computed without ever holding the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from hetero.errors import ModelError

_CHECK_TOKENS = 8


@dataclass(frozen=True)
class LMHead:
    """``logits = softcap(scale * (decoder(x) @ weight.T + bias))``, with ``softcap(z) = c tanh(z / c)``.

    ``weight`` is [vocabulary, hidden]; ``scale`` and ``softcap`` come from the model's configuration (Cohere,
    Granite, Gemma 2).
    """

    decoder: nn.Module
    weight: Tensor
    bias: Tensor | None
    scale: float
    softcap: float | None

    @classmethod
    def of(cls, model: Any) -> LMHead:
        """The head of a Transformers causal LM, with or without a PEFT adapter on its layers.

        Raises :class:`ModelError` when the head itself has an adapter: its weight is read directly, so the
        adapter would be left out in silence.
        """
        causal = model.get_base_model() if hasattr(model, "peft_config") else model
        head = causal.get_output_embeddings()
        if type(head).__module__.startswith("peft."):
            raise ModelError(
                "the adapter covers the output layer (lm_head), which the fused loss reads directly; "
                "take it out of lora_target_modules and lora_modules_to_save"
            )
        if not isinstance(head, nn.Linear):
            found = type(head).__name__
            raise ModelError(f"{type(causal).__name__} has no linear output layer (found {found})")
        config = causal.config.get_text_config()
        scale = getattr(config, "logit_scale", None) or 1.0
        scale /= getattr(config, "logits_scaling", None) or 1.0
        return cls(
            causal.base_model, head.weight, head.bias, scale, getattr(config, "final_logit_softcapping", None)
        )

    def hidden(self, batch: dict[str, Any]) -> Tensor:
        """Hidden states [rows, length, hidden] of ``batch``, already times ``scale``.

        No cache is used: with one, packed documents would see each other.
        """
        output = self.decoder(
            input_ids=batch["input_ids"],
            attention_mask=batch.get("attention_mask"),
            position_ids=batch.get("position_ids"),
            use_cache=False,
        )
        hidden = output.last_hidden_state
        return hidden if self.scale == 1.0 else hidden * self.scale

    def scaled_bias(self) -> Tensor | None:
        """The bias as it enters the logits made from :meth:`hidden`."""
        return self.bias if self.bias is None or self.scale == 1.0 else self.bias * self.scale


@torch.no_grad()
def check_head(model: Any) -> None:
    """Compare the head taken apart with the model's own logits on a few tokens.

    Raises :class:`ModelError` when they differ, as for a model that does something to its logits that
    :class:`LMHead` does not know: training would go wrong in silence.
    """
    head = LMHead.of(model)
    training = model.training
    model.eval()
    try:
        size = min(head.weight.shape[0], _CHECK_TOKENS)
        ids = torch.arange(size, device=head.weight.device).unsqueeze(0)
        expected = model(input_ids=ids, use_cache=False).logits.float()
        bias = head.scaled_bias()
        logits = head.hidden({"input_ids": ids}) @ head.weight.T
        logits = (logits if bias is None else logits + bias).float()
        if head.softcap is not None:
            logits = head.softcap * torch.tanh(logits / head.softcap)
    finally:
        model.train(training)
    # The two differ by rounding only: a few units in the last place of the weights' type.
    tolerance = 16 * torch.finfo(head.weight.dtype).eps * max(1.0, float(expected.abs().max()))
    worst = float((logits - expected).abs().max())
    if not worst <= tolerance:
        raise ModelError(
            f"{type(model).__name__} changes its logits in a way that the fused loss does not know "
            f"(they differ by {worst:.3g}): this architecture cannot be trained yet"
        )
