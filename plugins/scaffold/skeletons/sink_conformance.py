"""The suite of sinks for this one: its settings, and how to read what it has delivered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tidelog.kernel.testing.sinks import Delivered, SinkConformance


def delivered(folder: Path) -> Sequence[Delivered]:
    """Return the records of all files; a line that is not complete yet is none."""
    found: list[Delivered] = []
    for file in folder.glob("*.jsonl"):
        topic, partition, *_ = file.stem.split("-")
        for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                item = json.loads(line)
                key, value = (_bytes(item[name]) for name in ("key", "value"))
                found.append(Delivered(topic, int(partition), item["offset"], key, value))
    return found


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


class SkeletonSinkConformance(
    SinkConformance, settings={"path": "{folder}"}, delivered=delivered, exactly_once=True
):
    """Each committed record is delivered once, whatever happens."""
