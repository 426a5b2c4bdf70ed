"""Vendor differences as data: capability and peak tables, read from JSON beside a backend's code.

A table has ``sources`` (tag -> repository at a commit), ``default`` (holds for every chip) and ``chips``: a
list of ``{"match": regex, "arch": ..., "caps": {...}, "peaks": {...}}``. The first entry whose regex matches
the *whole* device name (or architecture, where a backend looks up by that) overrides the default.
A source is written ``"TAG path"``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from hetero.accelerator.caps import CAP_NAMES, Cap, Caps
from hetero.accelerator.peaks import Peak


class ChipTable:
    """The tables ``caps.json`` and ``peaks.json`` of one backend package.

    Raises:
        ValueError: an entry is malformed; the message names the file, the chip and the entry.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._caps = _read(package, "caps.json")
        self._peaks = _read(package, "peaks.json")

    def arch(self, name: str) -> str:
        """Architecture of the chip that torch calls ``name``; ``"unknown"`` where no entry matches."""
        return _chip(self._caps, name).get("arch", "unknown")

    def caps(self, key: str, chip: str | None = None, **overrides: Cap) -> Caps:
        """Capabilities listed for ``key``, a device name or an architecture, as the table is written.

        ``chip`` is the device name that peaks go by, where that is not ``key``; ``overrides`` are what the
        device itself answered.
        """
        rows = {**self._caps.get("default", {}), **_chip(self._caps, key).get("caps", {})}
        sources = self._caps.get("sources", {})
        found: dict[str, Cap] = {}
        for name, row in rows.items():
            if name not in CAP_NAMES:
                raise ValueError(f"{self.package}/caps.json, {key!r}: unknown capability {name!r}")
            found[name] = self._entry("caps.json", key, name, Cap, row, sources)
        return Caps(**{**found, **overrides}, peaks=self.peaks(chip or key))

    def peaks(self, name: str) -> dict[str, Peak]:
        """Peak rates of the chip called ``name``, as recorded."""
        rows = {**self._peaks.get("default", {}), **_chip(self._peaks, name).get("peaks", {})}
        sources = self._peaks.get("sources", {})
        return {key: self._entry("peaks.json", name, key, Peak, row, sources) for key, row in rows.items()}

    def _entry(
        self, file: str, chip: str, name: str, kind: type, row: Mapping[str, Any], sources: Mapping[str, str]
    ) -> Any:
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        tag, _, path = str(values.get("source", "")).partition(" ")
        if tag in sources:
            values["source"] = f"{sources[tag]} {path}".strip()
        try:
            return kind(**values)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.package}/{file}, {chip!r}, {name!r}: {error}") from error


@cache
def chip_table(package: str) -> ChipTable:
    """The tables of ``package`` (``"hetero.backends.metax"``), read once."""
    return ChipTable(package)


def _chip(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((chip for chip in table.get("chips", ()) if re.fullmatch(chip["match"], name)), {})


def _read(package: str, file: str) -> dict[str, Any]:
    return json.loads((resources.files(package) / file).read_text(encoding="utf-8"))
