"""Sources of the AscendC kernels (docs/kernels_ascend.md); there is no Python code here."""
