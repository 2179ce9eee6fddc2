"""Engine of the clients: any number of operations side by side over a connection per broker, without I/O.

    user ── spawn(operation, done) ──▶ Engine ── connect, watch, release ──▶ EngineIo (a driver)
                                          ◀── connected, readable, writable, run_due ──

An operation is a generator of steps (see `steps`): the engine sends an `Exchange` over the connection of its
broker and lane, which it opens when needed, and lets a `Pause` end by a timer. A driver opens sockets, waits
for them and for the next timer, and calls the engine; it decides nothing. No method blocks, and all are
called by one thread at a time.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar, cast

import attrs

from tidelog.kernel.clock import wall_clock_ms
from tidelog.plugins.client.cluster import ClusterCache
from tidelog.plugins.client.errors import (
    AuthenticationRefused,
    BrokerClosed,
    BrokerUnreachable,
    ClientClosed,
    ClientError,
    NoBrokerFound,
    NoCredentials,
    OperationRaised,
    RequestTimedOut,
)
from tidelog.plugins.client.link import Link
from tidelog.plugins.client.requests import versions_before_negotiation
from tidelog.plugins.client.settings import parse_addresses
from tidelog.plugins.client.steps import Exchange, Pause, Run, Session, extra_time_s
from tidelog.plugins.client.zookeeper_ensemble import BootstrapServers, ensemble_of, new_finder

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

    from tidelog.plugins.client.broker_finder import BrokerFinder
    from tidelog.plugins.client.cluster import Address
    from tidelog.plugins.client.sasl import SaslLogin
    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.client.settings import ClientSettings
    from tidelog.plugins.client.steps import Steps

T = TypeVar("T")

_NEGOTIATION: Final = "ApiVersions"
_SESSION_SHARE: Final = 0.85
"""Of the lifetime of a login, after which a connection is replaced; Kafka's clients log in again then."""


class EngineIo(Protocol):
    """What an engine asks of its driver; nothing here waits."""

    def clock(self) -> float:
        """Return the seconds of a clock that never goes back."""
        ...

    def connect(self, channel: Channel) -> None:
        """Begin to connect; `Engine.connected` or `Engine.not_connected` is called later, not from here."""
        ...

    def watch(self, channel: Channel) -> None:
        """Call `Engine.readable` while bytes arrive, and `Engine.writable` once if some are left to send.

        The engine calls this when a connection is there, and again when bytes are left to send.
        """
        ...

    def release(self, channel: Channel) -> None:
        """Stop watching or connecting; the engine closes the socket next."""
        ...

    def run_in_thread(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Call `work` in another thread, and later `done` with what it returned or raised."""
        ...

    def post(self, call: Callable[[], None]) -> None:
        """Have the engine process an event soon; any thread may call this, without a lock."""
        ...

    def wake(self) -> None:
        """Call `Engine.run_due` soon: a timer or a callback was added."""
        ...


class EngineTimer:
    """Callback at a time of the clock, unless it is cancelled before."""

    __slots__ = ("call", "when")

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Do nothing when the time has come."""
        self.call = None


class Channel:
    """Connection to one address, in one lane: being opened while `link` is None, then negotiating, then open.

    `is_released` once the engine has dropped it, so that what a driver still reports of it is ignored.
    `timer` ends the attempt to open it, and `silence` is the reason then.
    `is_written` is for drivers: one waits until its socket is writable.
    After `retires_at` no exchange is added: the broker ends the session of its login soon (KIP-368).
    """

    def __init__(self, address: Address, lane: str, *, is_assumed_old: bool) -> None:
        self.address = address
        self.lane = lane
        self.link: Link | None = None
        self.login: SaslLogin | None = None
        self.is_assumed_old = is_assumed_old
        self.silence = ""
        self.is_released = False
        self.is_written = False
        self.is_open = False
        self.retires_at = math.inf
        self.timer: EngineTimer | None = None
        self.waiting: list[_Flight] = []
        self.flights: dict[int, _Flight] = {}


class _Flight:
    """An exchange on its way: at first without a connection, then in a channel's `waiting` or `flights`."""

    __slots__ = (
        "answers",
        "attempts",
        "channel",
        "deadline",
        "done",
        "ids",
        "missing",
        "step",
        "timer",
        "untried",
    )

    def __init__(
        self, step: Exchange, done: Callable[[list[Any] | ClientError], None], deadline: float | None
    ) -> None:
        self.step = step
        self.done = done
        self.deadline = deadline
        self.untried = list(step.addresses)
        self.attempts: list[tuple[Address, str]] = []
        self.channel: Channel | None = None
        self.timer: EngineTimer | None = None
        self.ids: list[int | None] = []
        self.answers: dict[int, Any] = {}
        self.missing = 0


class Task(Generic[T]):
    """Operation that an engine runs; `done` is called once, with its result or its error."""

    def __init__(
        self,
        engine: Engine,
        steps: Steps[T],
        done: Callable[[T | ClientError], None],
        timeout_s: float | None,
    ) -> None:
        self._engine = engine
        self._done: Callable[[T | ClientError], None] | None = done
        self._timeout_s = timeout_s
        self._deadline = None if timeout_s is None else engine.clock() + timeout_s
        self._timer: EngineTimer | None = None
        self._flight: _Flight | None = None
        self._step = 0
        try:
            self._run = Run(steps)
        except ClientError as error:
            failure = error
            engine.soon(lambda: self._end(failure))
        else:
            self._perform()

    def cancel(self) -> None:
        """End the operation; `done` is not called."""
        if self._done is not None:
            self._done = None
            self._leave_step()
            self._run.close()

    def _perform(self) -> None:
        step = self._run.step
        if step is None:
            self._end(self._run.result)
            return
        self._step += 1
        if self._deadline is not None:
            self._deadline += extra_time_s(step)
        if isinstance(step, Pause):
            self._set_timer(step.seconds)
            return
        self._set_timer(None)
        number = self._step
        self._flight = self._engine.exchange(
            step, lambda outcome: self._continue(number, outcome), self._deadline
        )

    def _set_timer(self, pause_s: float | None) -> None:
        """Wait for the end of a pause, or for the deadline if that is before or there is no pause."""
        engine, now = self._engine, self._engine.clock()
        number = self._step
        if pause_s is not None and (self._deadline is None or now + pause_s < self._deadline):
            self._timer = engine.call_at(now + pause_s, lambda: self._continue(number, None))
        elif self._deadline is not None:
            self._timer = engine.call_at(self._deadline, self._expire)

    def _continue(self, number: int, outcome: list[Any] | ClientError | None) -> None:
        # An outcome of a step that the deadline has ended comes too late.
        if self._done is None or number != self._step:
            return
        self._leave_step()
        try:
            if isinstance(outcome, ClientError):
                self._run.failed(outcome)
            else:
                self._run.succeeded(outcome)
        except ClientError as error:
            self._end(error)
        except BaseException as error:
            # Its caller gets it, whatever it is, and no other operation is held up.
            self._end(OperationRaised(self._run.name, error))
        else:
            self._perform()

    def _expire(self) -> None:
        if self._done is None:
            return
        unreachable = None if self._flight is None else self._engine.unreachable(self._flight)
        self._leave_step()
        if unreachable is not None:
            # An operation that tries nothing else ends with the reason.
            try:
                self._run.failed(unreachable)
            except ClientError as error:
                self._end(error)
                return
            if self._run.step is None:
                self._end(self._run.result)
                return
        self._run.close()
        name, timeout_s = self._run.name, self._timeout_s or 0.0
        self._end(RequestTimedOut(name, timeout_s, self._run.last_error))

    def _leave_step(self) -> None:
        self._step += 1
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flight is not None:
            self._engine.abandon(self._flight)
            self._flight = None

    def _end(self, outcome: T | ClientError) -> None:
        done, self._done = self._done, None
        self._leave_step()
        if done is not None:
            done(outcome)


class Engine:
    """Operations of one client, its connections, its timers and what it knows of the cluster.

    Attributes:
        session: what operations get first
        is_closed: nothing can be spawned any more
    """

    def __init__(
        self,
        bootstrap: BootstrapServers,
        settings: ClientSettings,
        io: EngineIo,
        *,
        has_lanes: bool = True,
    ) -> None:
        """Set the bootstrap servers; nothing is connected before it is needed.

        Without lanes there is one connection to a broker: where one operation runs at a time, none waits for
        another one.

        Raises:
            InvalidAddress: an address has another form than host:port.
            ValueError, ModuleNotFoundError: see `ZooKeeperEnsemble`.
        """
        ensemble = ensemble_of(bootstrap)
        addresses = () if ensemble is not None else parse_addresses(cast("str | Iterable[str]", bootstrap))
        self.session = Session(settings, ClusterCache(addresses), wall_clock_ms)
        self.clock = io.clock
        self.io = io
        self.is_closed = False
        self._finder = None if ensemble is None else new_finder(self, ensemble, self._found)
        self._unaddressed: list[_Flight] = []
        self._has_lanes = has_lanes
        self._login = _login_of(settings.security)
        self._retiring: set[Channel] = set()
        self._channels: defaultdict[str, dict[Address, Channel]] = defaultdict(dict)
        self._timers: list[tuple[float, int, EngineTimer]] = []
        self._timer_numbers = count()
        self._soon: deque[Callable[[], None]] = deque()

    def spawn(
        self,
        operation: Steps[T],
        done: Callable[[T | ClientError], None],
        *,
        timeout_s: float | None = None,
    ) -> Task[T]:
        """Run an operation beside the others; `done` gets its result or error, or `RequestTimedOut`.

        Raises:
            ClientClosed: the engine is closed.
        """
        if self.is_closed:
            raise ClientClosed("this client was closed")
        return Task(self, operation, done, timeout_s)

    def soon(self, call: Callable[[], None]) -> None:
        """Call when the present event is processed, before the driver waits again."""
        self._soon.append(call)
        self.io.wake()

    def call_at(self, when: float, call: Callable[[], None]) -> EngineTimer:
        """Call at a time of `clock`."""
        timer = EngineTimer(when, call)
        is_first = not self._timers or when < self._timers[0][0]
        heapq.heappush(self._timers, (when, next(self._timer_numbers), timer))
        if is_first:
            self.io.wake()
        return timer

    def run_due(self) -> float | None:
        """Call what is due; return the time of the next timer, None without one. Drivers call it often."""
        self._run_soon()
        timers = self._timers
        now = self.clock()
        while timers and (timers[0][2].call is None or timers[0][0] <= now):
            call = heapq.heappop(timers)[2].call
            if call is not None:
                call()
                self._run_soon()
        return timers[0][0] if timers else None

    def exchange(
        self,
        step: Exchange,
        done: Callable[[list[Any] | ClientError], None],
        deadline: float | None = None,
    ) -> _Flight:
        """Send requests to any of the addresses, over an open connection if there is one.

        Addresses that have to be connected to share the time up to `deadline`.
        """
        flight = _Flight(step, done, deadline)
        if step.addresses or self._finder is None:
            self._place(flight)
        else:
            self._find_address(flight, self._finder)
        return flight

    def unreachable(self, flight: _Flight) -> BrokerUnreachable | None:
        """Return the error of an exchange that waits for a connection, None for another one."""
        channel = flight.channel
        if channel is None or channel.is_open:
            return None
        return BrokerUnreachable([*flight.attempts, (channel.address, channel.silence)])

    def abandon(self, flight: _Flight) -> None:
        """Ignore the responses of an exchange, which are still on their way."""
        flight.done = _ignore
        if flight.timer is not None:
            flight.timer.cancel()
        if flight in self._unaddressed:
            self._unaddressed.remove(flight)

    def close(self) -> None:
        """Close every connection; what is in flight fails, and nothing can be spawned any more."""
        self.is_closed = True
        if self._finder is not None:
            self._finder.close()
        for flight in self._unaddressed:
            self._finish(flight, ClientClosed("this client was closed"))
        open_ones = [each for lane in self._channels.values() for each in lane.values()]
        for channel in (*open_ones, *self._retiring):
            self._drop(channel, ClientClosed("this client was closed"))
        self._run_soon()

    def connected(self, channel: Channel, sock: socket.socket) -> None:
        """Continue with a socket that a driver has connected; it belongs to the engine now."""
        if channel.is_released:
            sock.close()
            return
        assumed = versions_before_negotiation(str(channel.address)) if channel.is_assumed_old else None
        channel.link = Link(sock, channel.address, self.session.settings, assumed, channel.login)
        self.io.watch(channel)
        self._send(channel)
        if channel.link.wire.ready:
            self._opened(channel)

    def not_connected(self, channel: Channel, reason: str) -> None:
        """Continue without a connection that a driver could not open."""
        if not channel.is_released:
            self._drop(channel, BrokerUnreachable([(channel.address, reason)]))

    def readable(self, channel: Channel) -> None:
        """Receive, and continue the operations whose responses are complete."""
        link = channel.link
        if link is None or channel.is_released:
            return
        link.receive()
        try:
            while (response := link.wire.next_response()) is not None:
                self._answered(channel, response.correlation_id, response.message)
        except ClientError as error:
            self._lost(channel, error)
            return
        if not channel.is_open and link.wire.ready:
            self._opened(channel)
        # A response may have queued a request: ApiVersions again, in a lower version.
        if link.wire.has_outgoing or link.wire.failure is not None:
            self._send(channel)

    def writable(self, channel: Channel) -> None:
        """Send what could not be sent before."""
        if channel.link is not None and not channel.is_released:
            self._send(channel)

    def _run_soon(self) -> None:
        soon = self._soon
        while soon:
            soon.popleft()()

    def _find_address(self, flight: _Flight, finder: BrokerFinder) -> None:
        """Have an exchange wait for the first brokers."""
        finder.start()
        self._unaddressed.append(flight)

        def expire() -> None:
            self._unaddressed.remove(flight)
            self._finish(flight, NoBrokerFound(finder.problem))

        when = self.clock() + self.session.settings.connect_timeout_s
        flight.timer = self.call_at(when, expire)

    def _found(self, addresses: Sequence[Address]) -> None:
        """Use brokers that were found, also for what waits for them."""
        self.session.cluster.replace_bootstrap(addresses)
        flights, self._unaddressed = self._unaddressed, []
        for flight in flights:
            if flight.timer is not None:
                flight.timer.cancel()
            flight.step = attrs.evolve(flight.step, addresses=self.session.cluster.addresses())
            flight.untried = list(flight.step.addresses)
            if flight.done is not _ignore:
                self._place(flight)

    def _place(self, flight: _Flight) -> None:
        """Give an exchange to a connection: an open one, else that to the next address not tried yet."""
        lane = flight.step.lane if self._has_lanes else ""
        channels = self._channels[lane]
        for address in flight.step.addresses:
            channel = channels.get(address)
            if channel is not None and channel.is_open and not self._retired(channel):
                self._submit(flight, channel)
                return
        if not flight.untried or self.is_closed:
            self._finish(flight, BrokerUnreachable(flight.attempts))
            return
        address = flight.untried.pop(0)
        channel = channels.get(address) or self._connect(address, lane, self._connect_s(flight))
        flight.channel = channel
        channel.waiting.append(flight)

    def _retired(self, channel: Channel) -> bool:
        """Return whether the login of a connection is too old; then another connection takes its place."""
        if self.clock() < channel.retires_at:
            return False
        if not channel.flights:
            self._drop(channel, BrokerClosed(str(channel.address), "", "the session of its login ends"))
        else:
            del self._channels[channel.lane][channel.address]
            self._retiring.add(channel)
        return True

    def _connect_s(self, flight: _Flight) -> float:
        """Return how long an exchange waits for a connection: an address leaves time for those after it."""
        timeout_s = self.session.settings.connect_timeout_s
        if flight.deadline is None:
            return timeout_s
        share_s = (flight.deadline - self.clock()) / (len(flight.untried) + 1)
        return max(0.0, min(timeout_s, share_s))

    def _connect(
        self, address: Address, lane: str, timeout_s: float, *, is_assumed_old: bool = False
    ) -> Channel:
        channel = self._channels[lane][address] = Channel(address, lane, is_assumed_old=is_assumed_old)
        channel.silence = f"no answer within {timeout_s:.3g} s"
        channel.timer = self.call_at(
            self.clock() + timeout_s, lambda: self.not_connected(channel, channel.silence)
        )
        self._begin(channel)
        return channel

    def _begin(self, channel: Channel) -> None:
        """Have a channel connected, once there is what its login needs."""
        channel.login = self._login
        prepare = None if self._login is None else self._login.preparation(channel.address.host)
        if prepare is None:
            self.io.connect(channel)
        else:
            # An access token or a ticket may take seconds.
            self.io.run_in_thread(prepare, lambda outcome: self._prepared(channel, outcome))

    def _prepared(self, channel: Channel, outcome: SaslLogin | Exception | None) -> None:
        if channel.is_released:
            return
        if not isinstance(outcome, Exception):
            channel.login = outcome or self._login
            self.io.connect(channel)
        elif self._login is not None and not (isinstance(outcome, NoCredentials) and outcome.may_pass):
            peer, mechanism = str(channel.address), self._login.mechanism
            self._drop(channel, AuthenticationRefused(peer, mechanism, str(outcome)))
        else:
            self.not_connected(channel, str(outcome))

    def _opened(self, channel: Channel) -> None:
        channel.is_open = True
        lifetime_ms = 0 if channel.link is None else channel.link.wire.session_lifetime_ms
        if lifetime_ms:
            channel.retires_at = self.clock() + lifetime_ms / 1000 * _SESSION_SHARE
        if channel.timer is not None:
            channel.timer.cancel()
        waiting, channel.waiting = channel.waiting, []
        for flight in waiting:
            # One that was sent before may have failed the connection.
            if channel.is_released:
                self._place(flight)
            elif flight.done is not _ignore:
                self._submit(flight, channel)

    def _submit(self, flight: _Flight, channel: Channel) -> None:
        link = channel.link
        if link is None:
            raise AssertionError("an open channel has a link")
        flight.channel = channel
        try:
            flight.ids = link.wire.send(*flight.step.requests, at_most=flight.step.at_most)
        except ClientError as error:
            self._finish(flight, error)
            return
        except TypeError as error:
            # It is no request.
            self._finish(flight, OperationRaised("an operation", error))
            return
        expected = [each for each in flight.ids if each is not None]
        flight.missing = len(expected)
        channel.flights.update(dict.fromkeys(expected, flight))
        settings = self.session.settings
        if expected:
            due = self.clock() + settings.request_timeout_s + flight.step.max_delay_s
            flight.timer = self.call_at(due, lambda: self._timed_out(flight))
        self._send(channel)
        if not expected and not channel.is_released:
            self._finish(flight, [None] * len(flight.ids))

    def _send(self, channel: Channel) -> None:
        link = channel.link
        if link is None:
            return
        is_left = link.send()
        if link.wire.failure is not None:
            # What has arrived is processed first: `readable` finds the failure after it.
            self.soon(lambda: self.readable(channel))
        elif is_left:
            self.io.watch(channel)

    def _answered(self, channel: Channel, correlation_id: int, message: Any) -> None:
        flight = channel.flights.pop(correlation_id)
        flight.answers[correlation_id] = message
        flight.missing -= 1
        if not flight.missing:
            answers = [None if each is None else flight.answers[each] for each in flight.ids]
            self._finish(flight, answers)
        if not channel.flights and channel in self._retiring:
            self._drop(channel, BrokerClosed(str(channel.address), "", "the session of its login ends"))

    def _timed_out(self, flight: _Flight) -> None:
        channel = flight.channel
        if channel is None or channel.link is None:
            return
        wire = channel.link.wire
        timeout_s = self.session.settings.request_timeout_s + flight.step.max_delay_s
        error = RequestTimedOut(f"{wire.waiting_for} by {wire.peer}", timeout_s)
        self._finish(flight, error)
        # The broker answers in order: nothing that was sent after this will be answered sooner.
        self._drop(channel, BrokerClosed(wire.peer, wire.waiting_for, "a response did not come in time"))

    def _lost(self, channel: Channel, error: ClientError) -> None:
        """Drop a failed connection; one that ended at ApiVersions may be to a broker older than that."""
        is_old = isinstance(error, BrokerClosed) and error.waiting_for.startswith(_NEGOTIATION)
        # Such brokers have no handshake of SASL.
        is_old = is_old and not self.session.settings.security.uses_sasl
        if not (is_old and not channel.is_open and not channel.is_assumed_old):
            self._drop(channel, error)
            return
        # What can be asked of another broker is; the rest tries this one as an old one.
        left = [flight for flight in channel.waiting if not flight.untried]
        channel.waiting = [flight for flight in channel.waiting if flight.untried]
        self._drop(channel, error)
        if not left or self.is_closed:
            return
        # Kafka before 0.10 closes the connection. A newer broker that stops does so too: what is assumed is
        # for one connection alone.
        channels = self._channels[channel.lane]
        timeout_s = self.session.settings.connect_timeout_s
        other = channels.get(channel.address)
        if other is None or not other.is_open:
            other = other or self._connect(channel.address, channel.lane, timeout_s, is_assumed_old=True)
            other.waiting += left
            return
        for flight in left:
            self._submit(flight, other)

    def _drop(self, channel: Channel, error: ClientError) -> None:
        """Close a connection; what is in flight fails, what waits for it tries another address."""
        if channel.is_released:
            return
        channel.is_released = True
        channel.is_open = False
        channels = self._channels[channel.lane]
        self._retiring.discard(channel)
        if channels.get(channel.address) is channel:
            del channels[channel.address]
        if channel.timer is not None:
            channel.timer.cancel()
        self.io.release(channel)
        if channel.link is not None:
            channel.link.close()
        flights, channel.flights = dict.fromkeys(channel.flights.values()), {}
        for flight in flights:
            self._finish(flight, error)
        waiting, channel.waiting = channel.waiting, []
        for flight in waiting:
            is_final = isinstance(error, AuthenticationRefused)
            if is_final or not (error.retriable or flight.untried or flight.attempts):
                # What listens at the one address is no broker, or all brokers refuse this login.
                self._finish(flight, error)
                continue
            flight.attempts.append((channel.address, _reason(error)))
            self._place(flight)

    def _finish(self, flight: _Flight, outcome: list[Any] | ClientError) -> None:
        if flight.timer is not None:
            flight.timer.cancel()
        done, flight.done = flight.done, _ignore
        if done is not _ignore:
            # Not from here: what continues may send, fail and continue again, as deep as there are retries.
            self.soon(lambda: done(outcome))


def _login_of(security: SecuritySettings) -> SaslLogin | None:
    if not security.uses_sasl:
        return None
    # Not at the top: most clients do without what it imports.
    from tidelog.plugins.client.sasl import login_of

    return login_of(security)


def result_of(outcome: T | ClientError) -> T:
    """Return the result of an operation, or raise its error, whatever it has raised."""
    if isinstance(outcome, OperationRaised):
        raise outcome.error
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome


def _ignore(_outcome: list[Any] | ClientError) -> None:
    """Stand for the caller of an exchange without a caller."""


def _reason(error: ClientError) -> str:
    if isinstance(error, BrokerUnreachable) and error.attempts:
        return error.attempts[-1][1]
    return str(error)
