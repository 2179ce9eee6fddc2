"""Kafka's broker keys that no part of this broker reads, as DescribeConfigs describes them.

`unread_keys.txt` has a key per line: its name, Kafka's type, its value (`-` for null) and what it means. The
value is the one that holds here where a part of this broker decides it, or else Apache Kafka's default.
Keys that a plugin declares are described by that, so the table may name more than is described.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class UnreadKey(NamedTuple):
    """A key that nothing reads; `meaning` is a sentence."""

    name: str
    type: str
    value: str | None
    meaning: str


def _parse(line: str) -> UnreadKey:
    name, kind, value, meaning = (column.strip() for column in line.split("|"))
    return UnreadKey(name, kind, None if value == "-" else value, meaning)


UNREAD_KEYS: Final = tuple(
    map(_parse, Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines())
)
"""The table, in its order."""
