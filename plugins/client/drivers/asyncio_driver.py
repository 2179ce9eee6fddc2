"""Driver of an engine in an asyncio event loop, by its callbacks for sockets and times."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

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


class AsyncioDriver:
    """Runs an engine from `start` to `stop`, in the event loop that runs when it is created."""

    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine: Engine | None = None
        self._tasks: dict[Channel, asyncio.Task[None]] = {}
        self._works: set[asyncio.Task[None]] = set()
        self._sockets: dict[Channel, socket.socket] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._is_woken = False
        self._is_processing = False

    def start(self, engine: Engine) -> None:
        """Run the engine beside the caller."""
        self._engine = engine
        self.wake()

    def stop(self) -> None:
        """Close the engine and end what it waits for."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def new_event(self) -> asyncio.Event:
        """Return an event that tasks can wait for."""
        return asyncio.Event()

    async def checkpoint(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> bool:
        """Wait for an event of `new_event`; return whether it came in time."""
        if timeout_s is None:
            await event.wait()
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return False
        return True

    async def run(self, operation: Steps[T], timeout_s: float | None) -> T:
        """Run an operation to its end, or cancel it with the calling task.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `timeout_s`.
        """
        if self._engine is None:
            raise RuntimeError("the driver was not started")
        outcomes: list[T | ClientError] = []
        ended = asyncio.Event()

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
        self._tasks[channel] = self._loop.create_task(self._connect(channel))

    def watch(self, channel: Channel) -> None:
        """Have the loop call back for the channel's socket."""
        engine, link = self._engine, channel.link
        if engine is None or link is None:
            return
        if channel not in self._sockets:
            self._sockets[channel] = link.socket
            self._loop.add_reader(link.socket, self._process, lambda: engine.readable(channel))
        if link.has_outgoing:
            self._loop.add_writer(link.socket, self._write, channel)

    def release(self, channel: Channel) -> None:
        """Stop waiting for the channel's socket, or connecting it."""
        task = self._tasks.pop(channel, None)
        if task is not None:
            task.cancel()
        sock = self._sockets.pop(channel, None)
        if sock is not None:
            self._loop.remove_reader(sock)
            self._loop.remove_writer(sock)

    def run_in_thread(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call `work` in a thread of the loop's pool."""
        task = self._loop.create_task(self._work(work, done))
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    def post(self, call: Callable[[], None]) -> None:
        """Process an event in the loop, unless that is closed; any thread may call this."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._process, call)

    def wake(self) -> None:
        """Have the loop call `Engine.run_due`, unless something does already."""
        if not self._is_woken and not self._is_processing:
            self._is_woken = True
            self._loop.call_soon(self._wake_up)

    def run_now(self, call: Callable[[], None]) -> None:
        """Let the engine process an event: what it sends is on its way then."""
        if self._is_processing:
            call()
        else:
            self._process(call)

    def _wake_up(self) -> None:
        self._is_woken = False
        self._process(_nothing)

    def _process(self, call: Callable[[], None]) -> None:
        """Let the engine process one event and what follows from it."""
        engine = self._engine
        if engine is None:
            return
        self._is_processing = True
        try:
            call()
            due = engine.run_due()
        except Exception:
            _LOG.exception("an event of a client could not be processed")
            due = engine.clock()
        self._is_processing = False
        if due is not None and self._engine is not None:
            self._set_timer(due)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            # One that is too early costs less than to replace it with each event.
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._loop.call_later(max(0.0, due - self.clock()), self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        self._process(_nothing)

    def _write(self, channel: Channel) -> None:
        engine = self._engine
        if engine is None:
            return
        self._process(lambda: engine.writable(channel))
        sock = self._sockets.get(channel)
        if sock is not None and channel.link is not None and not channel.link.has_outgoing:
            self._loop.remove_writer(sock)

    async def _connect(self, channel: Channel) -> None:
        engine = self._engine
        if engine is None:
            return
        try:
            sock = await _open_socket(self._loop, channel.address)
            if engine.session.settings.security.uses_tls:
                sock = await _secured(self._loop, sock, channel.address, engine.session.settings.security)
        except (OSError, UnicodeError) as error:
            reason = reason_of(error)
            self._tasks.pop(channel, None)
            self._process(lambda: engine.not_connected(channel, reason))
        else:
            self._tasks.pop(channel, None)
            self._process(lambda: engine.connected(channel, sock))

    async def _work(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = await self._loop.run_in_executor(None, work)
        except Exception as error:
            outcome = error
        self._process(lambda: done(outcome))


async def _open_socket(loop: asyncio.AbstractEventLoop, address: Address) -> socket.socket:
    """Return a socket that is connected to one of the addresses of a host.

    Raises:
        OSError: the host is unknown, or refuses at each address.
    """
    failure: OSError | None = None
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, place in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, place)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError(f"the host {address.host} has no address")


async def _secured(
    loop: asyncio.AbstractEventLoop, sock: socket.socket, address: Address, settings: SecuritySettings
) -> socket.socket:
    """Return the socket with TLS, after its handshake.

    Raises:
        OSError: it fails.
    """
    from tidelog.plugins.client.drivers.tls import handshake, wrapped

    made = wrapped(sock, address.host, settings)
    try:
        for want in handshake(made):
            await _ready(loop, made, for_reading=want == "read")
    except BaseException:
        made.close()
        raise
    return made


async def _ready(loop: asyncio.AbstractEventLoop, sock: socket.socket, *, for_reading: bool) -> None:
    ready = asyncio.Event()
    add, remove = (
        (loop.add_reader, loop.remove_reader) if for_reading else (loop.add_writer, loop.remove_writer)
    )
    add(sock, ready.set)
    try:
        await ready.wait()
    finally:
        remove(sock)


def _nothing() -> None:
    """Stand for no event: only what is due is done."""
