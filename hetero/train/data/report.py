"""What happened to the rows of a dataset on their way to token ids."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class EncodeReport:
    """Counts of one dataset. `tokens` are of one epoch, after truncation.

    Attributes:
        name, split: where the rows came from.
        content_hash: SHA-256 of the data, to tell on resume that it changed.
        total: rows read; `kept` of them became examples.
        truncated: kept examples that were cut to `max_length`.
        dropped: reason -> number of rows; `first_dropped` has the place of the first one of each reason.
        label_tokens: of those, the ones trained on; None for prompts, which are not.
        packed_rows: rows after packing; None without packing.
        warnings: sentences for the user.
    """

    name: str
    split: str
    max_length: int | None
    content_hash: str = ""
    total: int = 0
    kept: int = 0
    truncated: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    first_dropped: dict[str, str] = field(default_factory=dict)
    tokens: int = 0
    label_tokens: int | None = 0
    longest: int = 0
    packed_rows: int | None = None
    warnings: list[str] = field(default_factory=list)

    def drop(self, reason: str, place: str) -> None:
        """Count a row that is left out."""
        self.dropped[reason] += 1
        self.first_dropped.setdefault(reason, place)

    def dropped_text(self) -> str:
        """The dropped rows by reason: "3 empty completion (first: train.jsonl:7)"."""
        return ", ".join(
            f"{number} {reason} (first: {self.first_dropped[reason]})"
            for reason, number in self.dropped.items()
        )

    def summary(self) -> str:
        """A few lines for a person."""
        trained = "" if self.label_tokens is None else f", {self.label_tokens:,} of them trained on"
        lines = [
            f"{self.split}: {self.kept} of {self.total} rows of {self.name}; {self.tokens:,} tokens{trained}; "
            f"longest {self.longest}"
        ]
        if self.truncated:
            lines.append(f"  {self.truncated} rows cut to max_length {self.max_length}")
        if self.dropped:
            lines.append(f"  left out: {self.dropped_text()}")
        if self.packed_rows is not None and self.max_length:
            full = 100 * self.tokens / (self.packed_rows * self.max_length)
            lines.append(f"  packed into {self.packed_rows} rows of {self.max_length}, {full:.1f} % full")
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])
