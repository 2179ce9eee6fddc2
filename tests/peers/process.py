"""A server as a process of its own that ends with us, whatever way we end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_LOG_TAIL_BYTES = 4000
# The guard's input ends when its starter does, even by SIGKILL; then the whole group of the server goes too.
_GUARD = 'read _; kill -KILL "-$0" 2>/dev/null'


class ServerFailedError(Exception):
    """A server did not start or ended by itself; the message has the last lines of what it printed."""


@attrs.define
class ServerProcess:
    """One server: `command`, run in a session of its own, its output appended to `log_path`."""

    name: str
    command: Sequence[str]
    log_path: Path
    environment: Mapping[str, str] | None = None
    started_at: float = attrs.field(default=0.0, init=False)
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)
    _guard: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)

    def start(self) -> None:
        """Start the process; `started_at` is then the `time.monotonic()` just before.

        Raises RuntimeError when it runs already, OSError when there is no such program.
        """
        if self.is_running:
            raise RuntimeError(f"{self.name} runs already, as process {self.pid}")
        with self.log_path.open("ab") as log:
            self.started_at = time.monotonic()
            self._process = subprocess.Popen(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.environment) if self.environment is not None else None,
                start_new_session=True,
            )
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(self._process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def is_running(self) -> bool:
        """True from `start` until the process has ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id. Raises RuntimeError before the first `start`."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it still runs."""
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """The exit status. Raises subprocess.TimeoutExpired when it still runs after `timeout_s`."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        status = self._process.wait(timeout_s)
        self._dismiss_guard()
        return status

    def stop(self, timeout_s: float = 120.0) -> int | None:
        """SIGTERM, and SIGKILL if it still runs after `timeout_s`; the exit status, None if never started."""
        if self._process is None:
            return None
        try:
            self.signal(signal.SIGTERM)
            return self.wait(timeout_s)
        except BaseException as error:
            self.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                return self._process.returncode
            raise

    def kill(self) -> None:
        """SIGKILL to the process and to whatever it started; returns when it is gone."""
        if self._process is None:
            return
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._dismiss_guard()

    def log_tail(self) -> str:
        """The last lines of the process's output."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, self.log_path.stat().st_size - _LOG_TAIL_BYTES))
                return log.read().decode(errors="replace")
        except FileNotFoundError:
            return ""

    def failed(self, what: str) -> ServerFailedError:
        """An error that tells `what` went wrong, with the log's last lines."""
        status = self._process.poll() if self._process is not None else None
        ended = "" if status is None else f" (exit status {status})"
        return ServerFailedError(f"{self.name} {what}{ended}; the end of {self.log_path}:\n{self.log_tail()}")

    def _dismiss_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None and guard.stdin is not None:
            guard.kill()
            guard.stdin.close()
            guard.wait()
