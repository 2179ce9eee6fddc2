"""Driver of an engine in a thread of its own, for blocking code in any number of other threads.

Everything that touches the engine holds `lock`: the thread of this driver while it processes events, and
those that call the client while they spawn operations or queue records. Nothing waits while it holds it.
"""

from __future__ import annotations

import logging
import math
import os
import selectors
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.plugins.client.drivers.connected_socket import connected_socket
from tidelog.plugins.client.engine import result_of
from tidelog.plugins.client.link import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.engine import Channel, Engine
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.steps import Steps

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)
_WAKE_BYTES: Final = 4096
_NOT_OPEN: Final = -1


class ThreadDriver:
    """Runs an engine in a thread that starts with `start` and ends with `stop`."""

    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.lock = threading.Lock()
        # Opened by `start`: a client that was never used, or not even made whole, has nothing to close.
        self._selector: selectors.BaseSelector
        self._wake_read = self._wake_write = _NOT_OPEN
        self._watched: dict[Channel, socket.socket] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        self._is_woken = False
        self._sleeps_until = math.inf
        self._is_stopped = False
        self._thread: threading.Thread | None = None
        self._engine: Engine | None = None

    def start(self, engine: Engine) -> None:
        """Run the engine; the thread is a daemon, so that a program which forgets to stop it can end."""
        self._engine = engine
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, args=(engine,), name="tidelog-client", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the engine and end the thread."""
        with self.lock:
            if self._is_stopped:
                return
            self._is_stopped = True
            if self._engine is not None:
                self._engine.close()
            self.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def run(self, operation: Steps[T], timeout_s: float | None) -> T:
        """Run an operation while this thread waits for its end; return its result.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `timeout_s`.
        """
        outcomes: list[T | ClientError] = []
        ended = threading.Event()

        def done(outcome: T | ClientError) -> None:
            outcomes.append(outcome)
            ended.set()

        if self._engine is None:
            raise RuntimeError("the driver was not started")
        with self.lock:
            self._engine.spawn(operation, done, timeout_s=timeout_s)
        ended.wait()
        return result_of(outcomes[0])

    def connect(self, channel: Channel) -> None:
        """Connect in a thread, since looking up a host name blocks."""
        threading.Thread(target=self._connect, args=(channel,), name="tidelog-connect", daemon=True).start()

    def watch(self, channel: Channel) -> None:
        """Wait for the channel's socket beside the others."""
        if channel.link is None:
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if channel.link.has_outgoing else 0)
        if channel in self._watched:
            self._selector.modify(channel.link.socket, events, channel)
        else:
            self._watched[channel] = channel.link.socket
            self._selector.register(channel.link.socket, events, channel)

    def release(self, channel: Channel) -> None:
        """Stop waiting for the channel's socket; one that is being connected is closed when it is there."""
        sock = self._watched.pop(channel, None)
        if sock is not None:
            self._selector.unregister(sock)

    def run_in_thread(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call `work` in a thread of its own."""

        def run() -> None:
            outcome: T | Exception
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            self.post(lambda: done(outcome))

        threading.Thread(target=run, name="tidelog-work", daemon=True).start()

    def wake(self) -> None:
        """Have the thread call `Engine.run_due`, as it does when it starts."""
        if not self._is_woken and self._wake_write != _NOT_OPEN:
            self._is_woken = True
            os.write(self._wake_write, b"\0")

    def run_now(self, call: Callable[[], None]) -> None:
        """Let the engine process an event in the calling thread, which holds the lock.

        What it sends is on its way then, without waiting for another thread.
        """
        engine, is_woken = self._engine, self._is_woken
        if engine is None or self._is_stopped:
            return
        self._is_woken = True
        try:
            call()
            due = engine.run_due()
        except Exception:
            _LOG.exception("an event of a client could not be processed")
            due = engine.clock()
        self._is_woken = is_woken
        if due is not None and due < self._sleeps_until:
            self.wake()

    def post(self, call: Callable[[], None]) -> None:
        """Have the thread call something; for threads that do not hold the lock."""
        with self.lock:
            if self._is_stopped:
                # A socket that was connected too late is closed by the engine.
                call()
            else:
                self._inbox.append(call)
                self.wake()

    def _connect(self, channel: Channel) -> None:
        engine = self._engine
        if engine is None:
            raise AssertionError("an engine connects")
        address, timeout_s = channel.address, engine.session.settings.connect_timeout_s
        try:
            sock = connected_socket(address, engine.session.settings.security, timeout_s)
        except (OSError, UnicodeError) as error:
            reason = reason_of(error)
            self.post(lambda: engine.not_connected(channel, reason))
        else:
            self.post(lambda: engine.connected(channel, sock))

    def _run(self, engine: Engine) -> None:
        due: float | None = engine.clock()
        while True:
            timeout_s = None if due is None else max(0.0, due - engine.clock())
            ready = self._selector.select(timeout_s)
            with self.lock:
                # What is added meanwhile is done before the thread waits again: it needs no byte in the pipe.
                self._is_woken = True
                try:
                    self._process(engine, ready)
                    due = engine.run_due()
                except Exception:
                    _LOG.exception("an event of a client could not be processed")
                    due = engine.clock()
                # With the lock, and after the pipe was emptied: who comes next writes to it.
                self._is_woken = False
                self._sleeps_until = math.inf if due is None else due
                if self._is_stopped:
                    break
        self._free()

    def _process(self, engine: Engine, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, events in ready:
            channel: Channel | None = key.data
            if channel is None:
                os.read(self._wake_read, _WAKE_BYTES)
                continue
            if events & selectors.EVENT_WRITE:
                engine.writable(channel)
                # Only once: without bytes to send a socket is writable all the time.
                if channel in self._watched:
                    self.watch(channel)
            if events & selectors.EVENT_READ:
                engine.readable(channel)
        while self._inbox:
            self._inbox.popleft()()

    def _free(self) -> None:
        with self.lock:
            self._selector.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            # Their numbers may belong to other files soon.
            self._wake_read = self._wake_write = _NOT_OPEN
