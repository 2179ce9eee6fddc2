"""A driver at work: a process that answers lines."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .client import DriverCommand

_TAIL_BYTES = 2000


class DriverEndedError(Exception):
    """The driver ended, or did not answer in time; `str()` of it has the end of its log."""


@attrs.define
class Session:
    """Starts the driver when it is first asked, and again when it has ended or was too slow."""

    command: DriverCommand
    log_path: Path
    _process: subprocess.Popen[str] | None = None
    _lines: queue.Queue[str] = attrs.field(factory=queue.Queue[str])

    def ask(self, words: tuple[str, ...], timeout_s: float) -> Mapping[str, Any]:
        """Return the answer to one line.

        Raises:
            DriverEndedError: there is none within `timeout_s`; the driver is killed.
        """
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write("\t".join(words) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            self.close()
            raise DriverEndedError(f"no answer within {timeout_s:.0f} s") from None
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            raise DriverEndedError(f"the driver ended: {self._log_tail()}")
        answer: Mapping[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Kill the driver and what it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            with suppress(OSError):
                stream.close()  # type: ignore[union-attr]

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            self._lines = queue.Queue()
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    self.command.words,
                    env={**os.environ, **self.command.environment},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()
        return self._process

    def _log_tail(self) -> str:
        return self.log_path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    with suppress(ValueError):
        for line in process.stdout:
            lines.put(line)
    lines.put("")
