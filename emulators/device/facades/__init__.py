"""Facades of vendors' packages. Importable by their own names in emulated processes alone."""
