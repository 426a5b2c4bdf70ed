"""Triton kernels, one source for every vendor that compiles Triton (installed as ``hetero.kernels_triton``)."""
