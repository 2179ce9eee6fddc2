"""Apache Kafka's tools one after the other in one JVM, whose start takes longer than all that they do."""

from __future__ import annotations

import atexit
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE = Path(__file__).parent / "programs" / "ToolProcess.java"


class ToolProcessEndedError(Exception):
    """The JVM has ended instead of answering: the tool ended it, or it was killed."""


@attrs.define(eq=False)
class ToolProcess:
    """A JVM that is started for the first tool, and again for the next one after it has ended.

    It ends with us, as it reads what we write.
    """

    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = attrs.field(default=None, init=False)
    _one_at_a_time: threading.Lock = attrs.field(factory=threading.Lock, init=False)

    def run(self, words: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a tool, a class and its arguments, and return what it printed and its exit status.

        Raises:
            ToolProcessEndedError: there is no answer.
            subprocess.TimeoutExpired: there is none after `timeout_s`; the JVM is killed then.
        """
        with self._one_at_a_time:
            process, expired = self._running(), threading.Event()

            def expire() -> None:
                expired.set()
                process.kill()

            timer = threading.Timer(timeout_s, expire)
            timer.start()
            try:
                return _answer(process, words)
            except ToolProcessEndedError:
                # It may be about to end.
                self.end()
                if expired.is_set():
                    raise subprocess.TimeoutExpired([*words], timeout_s) from None
                raise
            finally:
                timer.cancel()

    def end(self) -> None:
        """Kill the JVM, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.end()
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self._process


def _answer(process: subprocess.Popen[bytes], words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write("\t".join(words).encode() + b"\n")
        process.stdin.flush()
    except BrokenPipeError as error:
        raise ToolProcessEndedError(words[0]) from error
    head = process.stdout.readline()
    if not head:
        raise ToolProcessEndedError(words[0])
    status, *sizes = map(int, head.split())
    output, errors = (process.stdout.read(size).decode() for size in sizes)
    return subprocess.CompletedProcess([*words], status, output, errors)


@cache
def tool_process(*command: str) -> ToolProcess:
    """Return the one process with this command line."""
    process = ToolProcess(command)
    atexit.register(process.end)
    return process
