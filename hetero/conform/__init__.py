"""Conformance: what a vendor's plugin and kernels must pass, in levels."""
