"""A program of `writers`: a process that prints what was acknowledged, and ends with its input."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@attrs.define
class Program:
    """A module of `writers`, which can be started again; a thread gives `take` each line that it prints."""

    name: str
    folder: Path
    take: Callable[[str], None]
    _process: subprocess.Popen[str] = attrs.field(init=False)
    _reader: threading.Thread = attrs.field(init=False)

    def start(self, *arguments: str) -> None:
        """Start it."""
        with (self.folder / f"writer-{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"tests.soak.writers.{self.name}", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.take(line)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def finish(self) -> int:
        """End its input, and return its exit status when it has ended and all its lines were taken."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        status = self._process.wait(DEADLINE_S)
        self._reader.join()
        return status

    def kill(self) -> None:
        """End it at once; its lines were taken."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
