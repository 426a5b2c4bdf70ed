"""AdamW over :func:`hetero.ops.adamw`: float32 moments always, float32 master weights where needed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from hetero import ops
from hetero.errors import CheckpointError

_MOMENTS = ("exp_avg", "exp_avg_sq")


def _decays(name: str, parameter: Tensor) -> bool:
    """Weight decay is for matrices: biases, norms and other vectors are left alone, as in Transformers."""
    return parameter.ndim > 1 and not name.endswith("bias")


class AdamW(torch.optim.Optimizer):
    """Decoupled weight decay Adam (Loshchilov & Hutter 2019), one multi-tensor call for each kind of tensor.

    Parameters that are not float32 get a float32 master copy: the update is made on the copy and rounded
    into the parameter, so that updates smaller than a bf16 ulp add up instead of vanishing.

    ``named_parameters`` are (name, parameter) pairs; those without ``requires_grad`` are passed over.
    Names are kept because the saved state is keyed by them (:meth:`tensors`), not by position.
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, nn.Parameter]],
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        trained = [(name, p) for name, p in named_parameters if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [(n, p) for n, p in trained if _decays(n, p)], "weight_decay": weight_decay},
            {"params": [(n, p) for n, p in trained if not _decays(n, p)], "weight_decay": 0.0},
        ]
        super().__init__([g for g in groups if g["params"]], {"lr": lr, "betas": betas, "eps": eps})

    def set_lr(self, lr: float) -> None:
        """Use ``lr`` for all groups from the next step on."""
        for group in self.param_groups:
            group["lr"] = lr

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None, *, grad_scale: Tensor | None = None
    ) -> float | None:
        """Update every parameter that has a gradient, multiplied by the 0-dim float32 ``grad_scale``."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            alike: dict[tuple[int, bool], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    state = self._state_of(parameter)
                    state["step"] += 1
                    alike[state["step"], "master" in state].append(parameter)
            for (step, mastered), parameters in alike.items():
                states = [self.state[p] for p in parameters]
                ops.adamw(
                    parameters,
                    [p.grad for p in parameters if p.grad is not None],
                    [s["exp_avg"] for s in states],
                    [s["exp_avg_sq"] for s in states],
                    [s["master"] for s in states] if mastered else (),
                    lr=group["lr"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    eps=group["eps"],
                    weight_decay=group["weight_decay"],
                    step=step,
                    grad_scale=grad_scale,
                )
        return loss

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            for moment in _MOMENTS:
                state[moment] = torch.zeros_like(parameter, dtype=torch.float32)
            if parameter.dtype != torch.float32:
                state["master"] = parameter.detach().to(torch.float32)
        return state

    @torch.no_grad()
    def grad_norm(self) -> Tensor:
        """2-norm of all gradients together: 0-dim float32 on their device, not waited for."""
        alike: dict[torch.dtype, list[Tensor]] = defaultdict(list)
        for _, parameter in self.named():
            if parameter.grad is not None:
                alike[parameter.grad.dtype].append(parameter.grad)
        norms = [ops.clip_grad_norm(grads, math.inf) for grads in alike.values()]
        return norms[0] if len(norms) == 1 else torch.stack(norms).norm() if norms else torch.zeros(())

    def named(self) -> Iterable[tuple[str, Tensor]]:
        """(name, parameter) of everything that is optimised."""
        for group in self.param_groups:
            yield from zip(group["param_names"], group["params"], strict=True)

    def tensors(self) -> dict[str, Tensor]:
        """The state's tensors as ``{"exp_avg.<parameter name>": tensor, …}``, not copied."""
        return {
            f"{key}.{name}": value
            for name, parameter in self.named()
            for key, value in self.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def steps(self) -> dict[str, int]:
        """How often each parameter was updated, by name."""
        return {name: self.state[p]["step"] for name, p in self.named() if self.state.get(p)}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor], steps: dict[str, int]) -> None:
        """Take back what :meth:`tensors` and :meth:`steps` gave.

        Raises :class:`CheckpointError` when they belong to other parameters.
        """
        own = dict(self.named())
        if strange := sorted(set(steps) - set(own)):
            raise CheckpointError(
                f"the optimiser state is of parameters that are not trained here: {', '.join(strange[:5])}"
            )
        for name, count in steps.items():
            state = self._state_of(own[name])
            state["step"] = count
            for key in [k for k in state if k != "step"]:
                saved = tensors.get(f"{key}.{name}")
                if saved is None or saved.shape != state[key].shape:
                    found = "absent" if saved is None else f"of shape {tuple(saved.shape)}"
                    raise CheckpointError(
                        f"optimiser state {key} of {name} is {found}, expected {tuple(state[key].shape)}"
                    )
                state[key].copy_(saved)
