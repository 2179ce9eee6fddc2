"""A worker process as the broker sees it: it is started, sent messages, listened to and killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, Final

import trio

from tidelog.plugins.cleaner.errors import WorkerDied
from tidelog.plugins.cleaner.worker.descriptors import send_descriptors

_MODULE = "tidelog.plugins.cleaner.worker"


_ONE_THREAD: Final = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The library for arrays starts no threads: nothing here uses them, and each takes memory and time."""
_KEEP_MEMORY: Final = {
    # The size of what is allocated for one step and freed after it, which the C library would otherwise
    # return to the system and get back, filled with zeros, in each step.
    "MALLOC_MMAP_THRESHOLD_": str(16 * 1024 * 1024),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 1024 * 1024),
    "MALLOC_TOP_PAD_": str(256 * 1024),
}
"""Settings of the GNU C library; others ignore them."""


def _path() -> str:
    return os.pathsep.join(filter(None, sys.path))


class WorkerProcess:
    """One process, which does one job after the other.

    It is a program of its own, and neither a fork, which a process with threads must not have, nor a copy of
    the main program, which need not be made for that.
    """

    def __init__(self) -> None:
        """Blocking: start it. It ends with the thread that does this (Linux).

        Raises:
            OSError: the system refuses.
        """
        ours, theirs = socket.socketpair()
        # The end of the process is closed here, so that reading from the other one ends when the process
        # does.
        with ours, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, and numbers
                [sys.executable, "-P", "-m", _MODULE, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                # Plugins may come from anywhere that the broker found them.
                env={**os.environ, **_ONE_THREAD, **_KEEP_MEMORY, "PYTHONPATH": _path()},
            )
            self._connection: Connection[Any, Any] = Connection(ours.detach())

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    async def send(self, message: object, descriptors: Sequence[int] = ()) -> None:
        """Send a message, and file descriptors after it.

        Raises:
            WorkerDied: the process has ended.
            Exception: it cannot be pickled.
        """

        def send() -> None:
            self._connection.send(message)
            if descriptors:
                send_descriptors(self._connection, descriptors)

        try:
            await trio.to_thread.run_sync(send)
        except OSError:
            raise await self._died() from None

    async def receive(self) -> object:
        """Wait for a message of the worker.

        Raises:
            WorkerDied: it has ended.
        """
        try:
            # After a cancellation the thread ends with the process, which `kill` ends.
            return await trio.to_thread.run_sync(self._connection.recv, abandon_on_cancel=True)
        except (EOFError, OSError):
            raise await self._died() from None

    async def _died(self) -> WorkerDied:
        status = await trio.to_thread.run_sync(self._process.wait)
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        return WorkerDied(f"the worker process {self.pid} {how}")

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Blocking: end the process at once, whatever it does."""
        self._process.kill()
        self._process.wait()
