"""Driver of an engine in a trio run: system tasks, so that a client needs no nursery of its user."""

from __future__ import annotations

import logging
import math
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import trio

from tidelog.plugins.client.engine import result_of
from tidelog.plugins.client.link import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.engine import Channel, Engine
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.client.steps import Steps

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)


class TrioDriver:
    """Runs an engine from `start` to `stop`, in the trio run that calls them."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._token = trio.lowlevel.current_trio_token()
        self._woken = trio.Event()
        self._sleeps_until = math.inf
        self._is_processing = False
        self._scopes: dict[Channel, trio.CancelScope] = {}
        self._is_stopped = False

    def clock(self) -> float:
        """Return the time of the trio run."""
        return trio.current_time()

    def start(self, engine: Engine) -> None:
        """Run the engine beside the caller."""
        self._engine = engine
        trio.lowlevel.spawn_system_task(self._run, engine)

    def stop(self) -> None:
        """Close the engine and end all tasks."""
        self._is_stopped = True
        if self._engine is not None:
            self._engine.close()
        self._woken.set()

    def new_event(self) -> trio.Event:
        """Return an event that tasks can wait for."""
        return trio.Event()

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        await trio.lowlevel.checkpoint()

    async def wait(self, event: trio.Event, timeout_s: float | None) -> bool:
        """Wait for an event of `new_event`; return whether it came in time."""
        with trio.move_on_after(math.inf if timeout_s is None else timeout_s):
            await event.wait()
            return True
        return False

    async def run(self, operation: Steps[T], timeout_s: float | None) -> T:
        """Run an operation to its end, or cancel it with the calling task.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `timeout_s`.
        """
        if self._engine is None:
            raise RuntimeError("the driver was not started")
        outcomes: list[T | ClientError] = []
        ended = trio.Event()

        def done(outcome: T | ClientError) -> None:
            outcomes.append(outcome)
            ended.set()

        task = self._engine.spawn(operation, done, timeout_s=timeout_s)
        try:
            await ended.wait()
        finally:
            task.cancel()
        return result_of(outcomes[0])

    def connect(self, channel: Channel) -> None:
        """Connect in a task."""
        self._scopes[channel] = trio.CancelScope()
        trio.lowlevel.spawn_system_task(self._connect, channel)

    def watch(self, channel: Channel) -> None:
        """Wait for the channel's socket in a task, and in another one while bytes are left to send."""
        if channel.link is None:
            return
        if channel not in self._scopes:
            self._scopes[channel] = trio.CancelScope()
            trio.lowlevel.spawn_system_task(self._receive, channel, channel.link.socket)
        if channel.link.has_outgoing and not channel.is_written:
            channel.is_written = True
            trio.lowlevel.spawn_system_task(self._write, channel, channel.link.socket)

    def release(self, channel: Channel) -> None:
        """End the tasks of the channel."""
        if channel.link is not None:
            # Before the descriptor is closed: what waits for it must not wait for another file that gets its
            # number.
            trio.lowlevel.notify_closing(channel.link.socket)
        scope = self._scopes.pop(channel, None)
        if scope is not None:
            scope.cancel()

    def run_in_thread(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call `work` in a thread of trio's."""
        trio.lowlevel.spawn_system_task(self._work, work, done)

    def post(self, call: Callable[[], None]) -> None:
        """Process an event in the run, unless that has ended; any thread may call this."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._process, call)

    def wake(self) -> None:
        """Have the task of the engine call `run_due`, unless something does already."""
        if not self._is_processing:
            self._woken.set()

    def run_now(self, call: Callable[[], None]) -> None:
        """Let the engine process an event: what it sends is on its way then."""
        if self._is_processing:
            call()
        else:
            self._process(call)

    def _process(self, call: Callable[[], None]) -> None:
        """Let the engine process one event and what follows from it."""
        engine = self._engine
        if engine is None or self._is_stopped:
            return
        self._is_processing = True
        try:
            call()
            due = engine.run_due()
        except Exception:
            _LOG.exception("an event of a client could not be processed")
            due = None
        self._is_processing = False
        if due is not None and due < self._sleeps_until:
            self._woken.set()

    async def _run(self, engine: Engine) -> None:
        while not self._is_stopped:
            self._woken = trio.Event()
            self._process(lambda: None)
            due = engine.run_due()
            self._sleeps_until = math.inf if due is None else due
            with trio.CancelScope(deadline=self._sleeps_until):
                await self._woken.wait()
            await trio.lowlevel.checkpoint()

    async def _connect(self, channel: Channel) -> None:
        engine, address = self._engine, channel.address
        if engine is None or channel not in self._scopes:
            return
        with self._scopes[channel]:
            try:
                sock = await _open_socket(address, engine.session.settings.security)
            except OSError as error:
                reason = reason_of(error)
                self._scopes.pop(channel, None)
                self._process(lambda: engine.not_connected(channel, reason))
            else:
                # Watching begins with a scope of its own.
                self._scopes.pop(channel, None)
                self._process(lambda: engine.connected(channel, sock))

    async def _receive(self, channel: Channel, sock: socket.socket) -> None:
        engine, scope = self._engine, self._scopes.get(channel)
        if engine is None or scope is None:
            return
        with scope:
            while not channel.is_released:
                try:
                    await trio.lowlevel.wait_readable(sock)
                except trio.ClosedResourceError:
                    return
                self._process(lambda: engine.readable(channel))

    async def _write(self, channel: Channel, sock: socket.socket) -> None:
        engine = self._engine
        if engine is None or channel.is_released:
            return
        try:
            await trio.lowlevel.wait_writable(sock)
        except trio.ClosedResourceError:
            return
        channel.is_written = False
        self._process(lambda: engine.writable(channel))

    async def _work(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = await trio.to_thread.run_sync(work)
        except Exception as error:
            outcome = error
        self._process(lambda: done(outcome))


async def _open_socket(address: Address, security: SecuritySettings) -> socket.socket:
    """Connect, with a TLS handshake if that is wanted.

    Raises:
        OSError: it fails.
    """
    stream = await trio.open_tcp_stream(address.host, address.port)
    sock = socket.socket(fileno=stream.socket.detach())
    if not security.uses_tls:
        return sock
    # OpenSSL takes longer to import than all else of a client.
    from tidelog.plugins.client.drivers.tls import handshake, wrapped

    made = wrapped(sock, address.host, security)
    try:
        for want in handshake(made):
            if want == "read":
                await trio.lowlevel.wait_readable(made)
            else:
                await trio.lowlevel.wait_writable(made)
    except BaseException:
        made.close()
        raise
    return made
