"""A disk that refuses, and a process that dies in the middle of its work."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from tidelog.plugins.storage_file.testing.interposing import ALL, Interposer

Choice = Callable[[str, str], bool]


class ProcessDied(BaseException):
    """The process is thought to have ended here; nobody may catch this and go on."""


class FailingDisk(Interposer):
    """Refuses calls with an error number, from one moment on until it is told to stop.

    `refuse` chooses what fails. `refused` counts how often that happened.
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
        """Let everything pass again."""
        self._names = ()

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Fail or perform."""
        if name in self._names and self._concerns(name, path := self.path_of(name, arguments)):
            if self._after:
                self._after -= 1
            elif self._times:
                self._times -= 1
                self.refused += 1
                raise OSError(self._error, os.strerror(self._error), path or None)
        return perform(*arguments)


class DyingProcess(Interposer):
    """Dies before one of the calls that change something, and does nothing from then on.

    `calls` counts them, so that a run which does not die tells how many there are.
    """

    def __init__(self, before_call: int | None, names: Collection[str]) -> None:
        super().__init__()
        self._before_call = before_call
        self._names = names
        self.calls = 0
        self.died = False

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Die or perform; a descriptor is closed even then, as the end of a process does it."""
        if name in self._names and not self.died:
            self.died = self.calls == self._before_call
            self.calls += 1
        if self.died and name != "close":
            raise ProcessDied(f"before call {self._before_call}: {name} {self.path_of(name, arguments)}")
        return perform(*arguments)


def _every(name: str, path: str) -> bool:
    return bool(name or path)
