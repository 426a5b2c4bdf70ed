"""Where the packages lie; metadata is in pyproject.toml."""

from setuptools import find_packages, setup


def _under(folder: str, package: str) -> list[str]:
    return [package, *(f"{package}.{name}" for name in find_packages(folder))]


setup(
    packages=_under("hetero", "hetero") + _under("backends", "hetero.backends") + ["hetero.kernels_triton"],
    package_dir={"hetero": "hetero", "hetero.backends": "backends", "hetero.kernels_triton": "kernels_triton"},
)
