"""Where the offsets of a group are reset to: what the options mean, without a broker."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client_commands.options import CommandFailed

Kind = Literal["earliest", "latest", "offset", "time", "shift"]

_COLUMNS: Final = (3, 4)
"""Of a file: topic, partition and offset, or the group before them."""


@attrs.frozen
class Target:
    """Where to: `value` is an offset, a time in milliseconds since the epoch, or a number of records."""

    kind: Kind
    value: int = 0


@attrs.frozen
class KnownOffsets:
    """Offsets of a partition: committed (or None), the first, the next, at the time asked for (or None)."""

    committed: int | None
    earliest: int
    latest: int
    at_time: int | None = None


def offset_for(target: Target, known: KnownOffsets) -> int | None:
    """Return the new offset, within the log; None if it cannot be said: nothing is committed to shift."""
    match target.kind:
        case "earliest":
            wanted = known.earliest
        case "latest":
            wanted = known.latest
        case "offset":
            wanted = target.value
        case "time":
            wanted = known.latest if known.at_time is None else known.at_time
        case "shift":
            if known.committed is None:
                return None
            wanted = known.committed + target.value
    return min(max(wanted, known.earliest), known.latest)


def read_offsets(path: Path, group: str) -> dict[TopicPartition, int]:
    """Return the offsets of a group in a file that `tidelog groups export` has written.

    Lines without a group (topic, partition, offset) are for any.

    Raises:
        CommandFailed: it is no text, a line has another form, or there is none for the group.
    """
    try:
        # Spreadsheets write a mark at the beginning.
        with path.open(newline="", encoding="utf-8-sig") as file:
            found = _offsets_of(file, path, group)
    except (UnicodeDecodeError, csv.Error) as error:
        raise CommandFailed(
            f"{path} is not what `tidelog groups export` writes, lines of group, topic, partition and "
            f"offset: {error}."
        ) from error
    if not found:
        raise CommandFailed(f"{path} has no offset for group {group!r}.")
    return found


def _offsets_of(lines: Iterable[str], path: Path, group: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(csv.reader(lines), start=1):
        if not row:
            continue
        *named, topic, partition, offset = row if len(row) in _COLUMNS else ("", "", "", "")
        if not (topic and partition.isdecimal() and offset.isdecimal()):
            raise CommandFailed(
                f"Line {number} of {path} is {','.join(row)!r}: it has to be group, topic, partition and "
                "offset."
            )
        if not named or named == [group]:
            found[TopicPartition(topic, int(partition))] = int(offset)
    return found
