"""What writers of keyed records have in common: their command line, the records, and their journal.

Arguments: bootstrap servers, topics (with commas), number of partitions, first number. Numbers are written in
groups: a line `begun FIRST AFTER` comes before anything of a group is sent, `committed FIRST AFTER` when all
of it was acknowledged, `aborted FIRST AFTER` when its transaction was. A group without an end is one that the
program was killed in.
"""

from __future__ import annotations

import random
import sys
import zlib
from typing import Final, NamedTuple

from .numbers import value

HOT_KEYS: Final = 40
"""Keys that are overwritten all the time."""
RARE_EVERY: Final = 20
"""One number in so many has a key of its own, which stays as it is through many compactions."""
RARE_SPAN: Final = 8000
"""So many numbers later such a key is written again: the keys of a long soak are bounded."""
DELETED_AFTER: Final = 200
"""So many numbers later every second one of those keys is deleted."""
_TOMBSTONE_SHARE: Final = 0.1
HEADER: Final = "number"


class Arguments(NamedTuple):
    """The command line."""

    bootstrap: str
    topics: list[str]
    partitions: int
    first: int


def arguments() -> Arguments:
    """Parse the command line."""
    bootstrap, topics, partitions, first = sys.argv[1:]
    return Arguments(bootstrap, topics.split(","), int(partitions), int(first))


class KeyedRecord(NamedTuple):
    """One record; `value` is None for a tombstone. The header names the writer and the number."""

    key: bytes
    value: bytes | None
    header: bytes

    def partition(self, partitions: int) -> int:
        """Return the partition of its key."""
        return zlib.crc32(self.key) % partitions


def keyed_record(writer: str, number: int) -> KeyedRecord:
    """Return a writer's record of a number."""
    name, is_tombstone = _key(number)
    return KeyedRecord(
        f"{writer}-{name}".encode(),
        None if is_tombstone else value(number),
        f"{writer} {number}".encode(),
    )


def _key(number: int) -> tuple[str, bool]:
    """Return a number's key, and whether it deletes it."""
    if number % RARE_EVERY == 0:
        return f"rare-{number % RARE_SPAN}", False
    deleted = number - RARE_EVERY // 2 - DELETED_AFTER
    if deleted >= 0 and deleted % (2 * RARE_EVERY) == 0:
        return f"rare-{deleted % RARE_SPAN}", True
    chance = random.Random(number)
    return f"hot-{chance.randrange(HOT_KEYS)}", chance.random() < _TOMBSTONE_SHARE


def journal(what: str, numbers: range) -> None:
    """Print a line about a group of numbers."""
    sys.stdout.write(f"{what} {numbers.start} {numbers.stop}\n")
    sys.stdout.flush()
