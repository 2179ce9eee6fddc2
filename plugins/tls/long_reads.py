"""Ends reads of TLS that would not end by themselves.

OpenSSL returns from a read with what a record has for the caller. Key updates of TLS 1.3 and attempts to
renegotiate in TLS 1.2 have nothing: it processes one after the other as long as some are in the socket, and a
peer that sends them without a pause would hold the event loop for ever. There is no option against it.

    event loop          begin … SSL_read … end
    thread of this      every 50 ms: is it still the same read, and has it computed for 50 ms since?
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

TICK_S: Final = 0.05
"""A read that computes for so long is ended; one of as many records as a call decrypts takes 1 ms."""
IDLE_S: Final = 0.5
"""The thread looks so often while nothing is read."""


class LongReads:
    """Watches the reads of one thread, which calls `begin` and `end` around each."""

    def __init__(self) -> None:
        self._reading: socket.socket | None = None
        self._number = 0
        self._cut: socket.socket | None = None
        self._stopped = threading.Event()

    def begin(self, sock: socket.socket) -> None:
        """Note that a read begins."""
        self._number += 1
        self._reading = sock

    def end(self) -> None:
        """Note that it has ended."""
        self._reading = None

    def has_cut(self, sock: socket.socket) -> bool:
        """Return whether a read took too long, so that the socket is no longer connected."""
        return self._cut is sock

    def start(self) -> None:
        """Watch the calling thread, until `stop`."""
        cpu_s = _cpu_clock()
        threading.Thread(target=self._run, args=(cpu_s,), name="tidelog-tls-reads", daemon=True).start()

    def stop(self) -> None:
        """End the thread, soon."""
        self._stopped.set()

    def _run(self, cpu_s: Callable[[], float]) -> None:
        number, since_s, wait_s = -1, 0.0, IDLE_S
        # What takes the place of a socket: OpenSSL reads that it is not connected. The clock ends with the
        # thread that it is of.
        with socket.socket() as unconnected, suppress(OSError):
            while not self._stopped.wait(wait_s):
                reading, seen = self._reading, self._number
                wait_s = IDLE_S if seen == number and reading is None else TICK_S
                if reading is None or seen != number:
                    number, since_s = seen, cpu_s()
                elif cpu_s() - since_s >= TICK_S:
                    self._cut, number = reading, -1
                    # One that is closed meanwhile has no number.
                    with suppress(OSError):
                        os.dup2(unconnected.fileno(), reading.fileno())


def _cpu_clock() -> Callable[[], float]:
    """Return how long the calling thread has computed, in seconds, or else how much time has passed.

    A thread that waits for a processor, or a machine that sleeps, is no long read.
    """
    get_clock = getattr(time, "pthread_getcpuclockid", None)
    if get_clock is None:
        return time.monotonic
    clock: int = get_clock(threading.get_ident())
    return lambda: time.clock_gettime(clock)
