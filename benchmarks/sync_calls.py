"""Counts the calls of a process that make files durable, as the Linux kernel sees them (`perf stat`)."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

# A JVM flushes with msync what it has mapped.
_CALLS = ("fsync", "fdatasync", "msync")
_PATIENCE_S = 10.0


class SyncCalls:
    """The calls of all threads of a process from `begin` to `end`; a context manager.

    Nothing is counted without `perf`, or without the permission to use it.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._perf: subprocess.Popen[str] | None = None
        self._pipes: list[int] = []

    def __enter__(self) -> SyncCalls:
        perf = shutil.which("perf")
        if perf is not None:
            self._pipes = [*os.pipe(), *os.pipe()]
            control, _, _, replies = self._pipes
            events = ",".join(f"syscalls:sys_enter_{call}" for call in _CALLS)
            # -D -1: nothing is counted before the control says so.
            options = ["-x,", "-e", events, "-D", "-1", "--control", f"fd:{control},{replies}"]
            self._perf = subprocess.Popen(
                [perf, "stat", *options, "-p", str(self._pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(control, replies),
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._perf is not None:
            self._perf.kill()
            self._perf.communicate()
        for descriptor in self._pipes:
            os.close(descriptor)

    def begin(self) -> None:
        """Count from now on."""
        self._command(b"enable\n")

    def end(self) -> int | None:
        """Count no more, and return how many there were; None where they could not be counted."""
        if self._perf is None:
            return None
        self._command(b"disable\n")
        self._perf.send_signal(signal.SIGINT)
        _, printed = self._perf.communicate(timeout=_PATIENCE_S)
        return parse_counts(printed)

    def _command(self, command: bytes) -> None:
        if self._perf is None or self._perf.poll() is not None:
            return
        _, control, replies, _ = self._pipes
        with contextlib.suppress(BrokenPipeError):
            os.write(control, command)
            poller = select.poll()
            poller.register(replies, select.POLLIN)
            if poller.poll(_PATIENCE_S * 1000):
                os.read(replies, 16)


def parse_counts(printed: str) -> int | None:
    """The sum of what `perf stat -x,` printed; None if one of the calls was not counted.

    >>> parse_counts("3,,syscalls:sys_enter_fsync,9,100.00,,")
    """
    counts = dict[str, int]()
    for line in printed.splitlines():
        value, _, event, *_ = [*line.split(","), "", "", ""]
        call = event.rpartition("sys_enter_")[2]
        if call in _CALLS and value.isdigit():
            counts[call] = int(value)
    return sum(counts.values()) if len(counts) == len(_CALLS) else None
