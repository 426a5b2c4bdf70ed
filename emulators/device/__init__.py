"""The emulated device of PyTorch itself: ``cuda`` on a CPU build of torch, or PrivateUse1 under any name.

``core/`` (C++) is the device: memory, streams, random numbers, operators. ``bindings/`` gives it to Python. The
modules here build it and put it into an emulated process; docs/emulators.md says what it does.
"""
