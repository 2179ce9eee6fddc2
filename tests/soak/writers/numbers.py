"""What writers have in common: their command line, the numbers, and how they print what was acknowledged."""

from __future__ import annotations

import random
import sys
import threading
from typing import Final, NamedTuple

PAUSE_S: Final = 0.02
"""Between two rounds: a soak is about what happens to records, not about how many there are."""
AT_ONCE: Final = 6
"""Records of a round."""
LARGEST_BYTES: Final = 2000


class Arguments(NamedTuple):
    """The command line."""

    bootstrap: str
    topic: str
    partitions: int


def arguments() -> Arguments:
    """Parse the command line."""
    bootstrap, topic, partitions = sys.argv[1:]
    return Arguments(bootstrap, topic, int(partitions))


def value(number: int) -> bytes:
    """Return the record's value: the number, a space, bytes that do not compress."""
    return b"%d " % number + random.Random(number).randbytes(number % LARGEST_BYTES)


def number_of(content: bytes) -> int:
    """Return the number of a record's value.

    Raises:
        ValueError: it is no value of a writer.
    """
    number = int(content.partition(b" ")[0])
    if content != value(number):
        raise ValueError(f"the record of {number} has other bytes than were sent")
    return number


def acknowledged(number: int) -> None:
    """Print that a number's record was acknowledged."""
    sys.stdout.write(f"acknowledged {number}\n")
    sys.stdout.flush()


class EndOfInput:
    """Whether the program's input has ended, which is how it is asked to finish."""

    def __init__(self) -> None:
        self._thread = threading.Thread(target=sys.stdin.read, daemon=True)
        self._thread.start()

    def __bool__(self) -> bool:
        return not self._thread.is_alive()
