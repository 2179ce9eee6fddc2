"""What members in Python have in common: how they are spoken to, and how they tell what happens."""

from __future__ import annotations

import queue
import sys
import threading
import time
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COMMIT, LEAVE = "commit", "leave"


@attrs.frozen
class Arguments:
    """What a member is started with."""

    bootstrap: str
    topic: str
    group: str
    settings: dict[str, str]

    @classmethod
    def parse(cls, words: Sequence[str]) -> Arguments:
        """From the command line."""
        bootstrap, topic, group, *rest = words
        return cls(bootstrap, topic, group, dict(word.split("=", 1) for word in rest))


@attrs.define
class Conversation:
    """Lines in and out."""

    _owned: set[int] = attrs.field(factory=set[int])
    _commands: queue.SimpleQueue[str] = attrs.field(factory=queue.SimpleQueue[str])

    def listen(self) -> None:
        """Take commands from the input from now on."""
        threading.Thread(target=self._read_commands, daemon=True).start()

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self._commands.put(line.strip())
        self._commands.put(LEAVE)

    def command(self) -> str | None:
        """The next command, None when there is none yet."""
        try:
            return self._commands.get_nowait()
        except queue.Empty:
            return None

    def gained(self, partitions: Iterable[int]) -> None:
        """Tell that partitions were assigned."""
        self._owned |= set(partitions)
        self._tell_owned()

    def gave_up(self, partitions: Iterable[int]) -> None:
        """Tell that partitions were revoked or lost."""
        self._owned -= set(partitions)
        self._tell_owned()

    def read(self, partition: int, offset: int) -> None:
        """Tell that a record was read."""
        self._tell(f"read {partition} {offset}")

    def committed(self) -> None:
        """Tell that a commit was acknowledged."""
        self._tell("committed")

    def _tell_owned(self) -> None:
        self._tell("owns " + ",".join(map(str, sorted(self._owned))))

    def _tell(self, what: str) -> None:
        sys.stdout.write(f"{time.monotonic_ns()} {what}\n")
        sys.stdout.flush()
