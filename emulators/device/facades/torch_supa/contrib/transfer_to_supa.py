"""Importing this makes ``torch.cuda`` answer for ``supa``, and ``"cuda"`` mean it."""

from hetero.emulators.device import spoof

spoof.install("bccl")
