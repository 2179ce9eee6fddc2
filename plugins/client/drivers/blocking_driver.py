"""Driver of an engine in the thread that calls it: no other thread, and no switch between two of them.

It runs one operation at a time, and watches its connections only while one runs.
"""

from __future__ import annotations

import math
import select
import time
from collections import deque
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.drivers.connected_socket import connected_socket
from tidelog.plugins.client.engine import Engine, result_of
from tidelog.plugins.client.errors import RequestTimedOut
from tidelog.plugins.client.link import reason_of
from tidelog.plugins.client.operations.sending import refresh
from tidelog.plugins.client.settings import ClientSettings, parse_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType
    from typing import Self
    from uuid import UUID

    from tidelog.plugins.client.engine import Channel
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.steps import Session, Steps

P = ParamSpec("P")
T = TypeVar("T")


class BlockingDriver:
    """Runs operations of a cluster's client in one thread; it connects at its first use, and when needed.

    `BlockingClient` has the operations as methods. A program that needs few of them imports those alone:

        with BlockingDriver("127.0.0.1:9092") as driver:
            driver.run(list_offsets, partitions)
    """

    def __init__(self, bootstrap: str | Iterable[str], *, settings: ClientSettings | None = None) -> None:
        """Set the bootstrap servers: `host:port`, separated by commas or as a sequence.

        Raises:
            InvalidAddress: an address has another form.
        """
        given = bootstrap if isinstance(bootstrap, str) else list(bootstrap)
        # Brokers that are found in ZooKeeper are for clients with a thread.
        parse_addresses(given)
        chosen = settings or ClientSettings()
        self._timeout_s = chosen.operation_timeout_s
        self._io = _CallerIo()
        self._engine = Engine(given, chosen, self._io, has_lanes=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection; the client cannot be used again."""
        self._engine.close()

    def connect(self) -> None:
        """Connect to any bootstrap server now, trying each address once.

        Raises:
            BrokerUnreachable: none of them accepts a connection.
            ClientError: the peer is not a broker with supported versions.
        """
        self.run(refresh)

    def topic_id(self, topic: str) -> UUID | None:
        """Return the id of a topic as of its last metadata, by which it is fetched; None if it has none."""
        found = self._engine.session.cluster.topic_id(topic)
        return None if found == NO_TOPIC_ID else found

    def run(
        self,
        operation: Callable[Concatenate[Session, P], Steps[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run an operation to its end, the caller's own or one of `tidelog.plugins.client.operations`.

        Raises:
            ClientError: raised by the operation.
            RequestTimedOut: it did not end within `operation_timeout_s` and the pauses that are extra.
        """
        engine, io = self._engine, self._io
        # What brokers have closed since the last operation is not used any more.
        io.process(engine, 0)
        outcomes: list[T | ClientError] = []
        task = engine.spawn(
            operation(engine.session, *args, **kwargs), outcomes.append, timeout_s=self._timeout_s
        )
        try:
            while not outcomes:
                due = engine.run_due()
                if not outcomes and not io.connect_next(engine):
                    io.process(engine, -1 if due is None else _until_ms(io.clock(), due))
        finally:
            task.cancel()
        if io.unsent:
            self._send_rest()
        return result_of(outcomes[0])

    def _send_rest(self) -> None:
        """Send what has no response (acks 0): nothing else would before the next operation."""
        engine, io = self._engine, self._io
        deadline = io.clock() + self._timeout_s
        while io.unsent:
            engine.run_due()
            if io.clock() >= deadline:
                raise RequestTimedOut("a request without a response", self._timeout_s)
            io.process(engine, _until_ms(io.clock(), deadline))


def _until_ms(now: float, due: float) -> int:
    return math.ceil(max(0.0, due - now) * 1000)


class _CallerIo:
    """Sockets of an engine that waits for them in the thread that calls `process`.

    Attributes:
        unsent: channels with bytes that are left to send
    """

    clock = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.unsent: set[Channel] = set()
        self._poller = select.poll()
        self._channels: dict[int, Channel] = {}
        self._connecting: deque[Channel] = deque()
        self._works: deque[Callable[[], None]] = deque()

    def connect(self, channel: Channel) -> None:
        """Connect once the present event is processed."""
        self._connecting.append(channel)

    def watch(self, channel: Channel) -> None:
        """Wait for the channel's socket beside the others."""
        if channel.link is None:
            return
        events = select.POLLIN
        if channel.link.has_outgoing:
            events |= select.POLLOUT
            self.unsent.add(channel)
        else:
            self.unsent.discard(channel)
        self._channels[channel.link.socket.fileno()] = channel
        self._poller.register(channel.link.socket, events)

    def release(self, channel: Channel) -> None:
        """Stop waiting for the channel's socket."""
        if channel.link is not None:
            self.unsent.discard(channel)
            descriptor = channel.link.socket.fileno()
            del self._channels[descriptor]
            self._poller.unregister(descriptor)

    def run_in_thread(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call `work` in this thread, once the present event is processed."""
        self._works.append(lambda: self._call(work, done))

    def _call(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        outcome: T | Exception
        try:
            outcome = work()
        except Exception as error:
            outcome = error
        done(outcome)

    def post(self, call: Callable[[], None]) -> None:
        """Raise NotImplementedError: there is no other thread."""
        raise NotImplementedError

    def wake(self) -> None:
        """Do nothing: `run` looks at what is due before it waits."""

    def connect_next(self, engine: Engine) -> bool:
        """Open the next socket, or do what has to be done before; return False if there is nothing."""
        if self._works:
            self._works.popleft()()
            return True
        if not self._connecting:
            return False
        channel = self._connecting.popleft()
        if channel.is_released:
            return True
        address, timer = channel.address, channel.timer
        left_s = 0.0 if timer is None else timer.when - self.clock()
        try:
            # No time at all would be a socket that does not block.
            sock = connected_socket(address, engine.session.settings.security, max(left_s, 0.001))
        except TimeoutError:
            engine.not_connected(channel, channel.silence)
        except (OSError, UnicodeError) as error:
            engine.not_connected(channel, reason_of(error))
        else:
            engine.connected(channel, sock)
        return True

    def process(self, engine: Engine, timeout_ms: int) -> None:
        """Wait for sockets, and let the engine process what they have; -1 waits without an end."""
        if timeout_ms == 0 and not self._channels:
            return
        for descriptor, events in self._poller.poll(timeout_ms):
            channel = self._channels.get(descriptor)
            if channel is None:
                continue
            if events & select.POLLOUT:
                engine.writable(channel)
                # Only once: without bytes to send a socket is writable all the time.
                if not channel.is_released:
                    self.watch(channel)
            if events & ~select.POLLOUT:
                engine.readable(channel)
