"""Disk that fails calls, and process that ends before any file operation."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from tidelog.plugins.storage_file.testing.interposing import ALL, Interposer

Choice = Callable[[str, str], bool]


class ProcessDied(BaseException):
    """The simulated end of the process; code under test must not catch this and continue."""


class FailingDisk(Interposer):
    """Disk that fails calls with an error number, from `refuse` until `recover`.

    `refuse` selects the calls. `refused` counts the failures.
    """

    def __init__(self) -> None:
        super().__init__()
        self._error = 0
        self._names: Collection[str] = ()
        self._concerns: Choice = _every
        self._after = 0
        self._times = 0
        self.refused = 0

    def refuse(
        self,
        error: int,
        names: Collection[str] = ALL,
        *,
        paths: Callable[[str], bool] = lambda _: True,
        after: int = 0,
        times: int = 1 << 30,
    ) -> None:
        """Fail calls of `names` on `paths` with `error`: the first `after` pass, then `times` fail."""
        self._error, self._names, self._after, self._times = error, names, after, times
        self._concerns = lambda _, path: paths(path)
        self.refused = 0

    def recover(self) -> None:
        """Let every call succeed again."""
        self._names = ()

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Fail or perform a call."""
        if name in self._names and self._concerns(name, path := self.path_of(name, arguments)):
            if self._after:
                self._after -= 1
            elif self._times:
                self._times -= 1
                self.refused += 1
                raise OSError(self._error, os.strerror(self._error), path or None)
        return perform(*arguments)


class DyingProcess(Interposer):
    """Process that ends before one of the calls that change something, and ignores all later ones.

    `calls` counts them, so that a run without an end shows how many there are.
    """

    def __init__(self, before_call: int | None, names: Collection[str]) -> None:
        super().__init__()
        self._before_call = before_call
        self._names = names
        self.calls = 0
        self.died = False

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Raise `ProcessDied` or perform a call; descriptors are closed even then, as by the system."""
        if name in self._names and not self.died:
            self.died = self.calls == self._before_call
            self.calls += 1
        if self.died and name != "close":
            raise ProcessDied(f"before call {self._before_call}: {name} {self.path_of(name, arguments)}")
        return perform(*arguments)


def _every(name: str, path: str) -> bool:
    return bool(name or path)
