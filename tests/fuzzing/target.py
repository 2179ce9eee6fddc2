"""What a fuzzer drives."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_log = logging.getLogger("tidelog")
# Instrumented code is several times slower; what takes longer than this holds up everybody else for too long.
SLOW_CPU_SECONDS = 2.0


class Target(Protocol):
    """A part of the broker that must take any bytes; used as a context manager."""

    def __enter__(self) -> Target: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def seeds(self) -> Sequence[bytes]:
        """Return good inputs, from which others are made."""
        ...

    def run(self, data: bytes) -> None:
        """Feed one input.

        Raises:
            Exception: the part did not take it as it should: that is a finding.
        """
        ...


class TooSlowError(Exception):
    """An input took far too much time."""


class LoggedError(Exception):
    """The broker logged an error that it had not expected."""


class Complaints(logging.Handler):
    """Collects the unexpected errors that are logged while an input is handled, in place of the log."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._found: list[BaseException] = []

    def __enter__(self) -> Complaints:
        _log.addHandler(self)
        _log.propagate = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _log.removeHandler(self)
        _log.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what was logged with a traceback."""
        if record.exc_info and record.exc_info[1] is not None:
            self._found.append(record.exc_info[1])

    def raise_first(self) -> None:
        """Raise what was logged since the last call, if anything was."""
        found, self._found = self._found, []
        if found:
            raise LoggedError(f"logged: {type(found[0]).__name__}: {found[0]}") from found[0]


def watched(target: Target, data: bytes) -> None:
    """Run one input; one that takes too much time is a finding, too."""
    start = time.process_time()
    target.run(data)
    took = time.process_time() - start
    if took > SLOW_CPU_SECONDS:
        raise TooSlowError(f"{len(data)} bytes took {took:.1f} s")
