"""A writer of keyed records, which is killed and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from .history import History
from .programs import Program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_ATTEMPTS: Final = 3


@attrs.define
class KeyedWriter:
    """A program of `writers` and the history that it prints."""

    name: str
    bootstrap: str
    folder: Path
    topics: Sequence[str]
    partitions: int
    kills: int = 0
    replaced: int = 0
    history: History = attrs.field(init=False)
    _program: Program = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.history = History(self.name)
        self._program = Program(self.name, self.folder, self._take)

    def _take(self, line: str) -> None:
        # A killed program may leave half a line, of a group that is not finished without it.
        if line.endswith("\n"):
            self.history.take(line)

    def start(self) -> None:
        """Start the program behind the numbers that were begun."""
        first = str(self.history.next_number)
        self._program.start(self.bootstrap, ",".join(self.topics), str(self.partitions), first)

    def kill(self) -> None:
        """End the program at once."""
        self._program.kill()

    def restart(self) -> str:
        """Kill the program and start it again; return what was done."""
        self.kills += 1
        self.kill()
        self.start()
        return f"kill the writer {self.name}"

    def replace_ended(self) -> None:
        """Start the program again if it gave up: a transaction that timed out fences its producer."""
        if not self._program.is_running:
            self.replaced += 1
            self.kill()
            self.start()

    def finish(self) -> None:
        """Have the program end its group, and end.

        Raises:
            AssertionError: it ended with an error, again and again.
        """
        for _ in range(_ATTEMPTS):
            if self._program.finish() == 0:
                return
            self.replaced += 1
            self.start()
        raise AssertionError(f"the writer {self.name} ended with an error: see {self.folder}")
