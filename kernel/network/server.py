"""The server: all listeners, all connections, and the sweep that ends idle ones."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from tidelog.kernel import disk
from tidelog.kernel.allocator import keep_freed_blocks
from tidelog.kernel.code_places import raised_in
from tidelog.kernel.config import Config, ServedListener, keys
from tidelog.kernel.errors import ConfigError, PluginError
from tidelog.kernel.metadata import ImageChange
from tidelog.kernel.metadata.client_quotas import QuotasByEntity
from tidelog.kernel.network.busy_poll import BusyPoll, Processors
from tidelog.kernel.network.connection import Connection
from tidelog.kernel.network.connection_rates import AddressRates, ConnectionRate
from tidelog.kernel.network.limits import ConnectionLimits, connections_within, limits_by_address
from tidelog.kernel.network.listener import BoundListener
from tidelog.kernel.network.memory import KEPT_BYTES, MemoryReturn, memory_bytes
from tidelog.kernel.network.quiet_clients import QuietClients
from tidelog.kernel.network.request_memory import RequestMemory
from tidelog.kernel.network.turns import Turns
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.rates import SampleWindows
from tidelog.kernel.seams.transport import ListenerTransport, Transport, TransportBackend, TransportRefused
from tidelog.kernel.seams.wire import (
    AuthenticatingWireCodec,
    CountingWireCodec,
    MeteredWireCodec,
    Peer,
    WireCodec,
    WireConnection,
    WireContext,
)

if TYPE_CHECKING:
    from tidelog.kernel.request import ListenerAuthentication
    from tidelog.kernel.seams.meters import MeterSource
    from tidelog.kernel.seams.sasl import SaslMechanismBackend

_log = logging.getLogger(__name__)

TASK_NAME = "a connection"
"""Of each connection's task: trio would compose a text for each."""
SASL = "SASL_"
"""Begins the security protocols whose clients authenticate, before the name of the transport."""
AUTHENTICATION_SECONDS = 30.0
"""A client has so long from its connection, or the end of its TLS handshake, until it is authenticated."""
SWEEP_SECONDS = 1.0
SWEPT_BEFORE_YIELD = 1000
"""Connections swept in a row before other tasks run: about 2 ms."""
RELEASE_MEMORY_AFTER_SWEEPS = 10
MOST_HELD_BEFORE_CLOSING = 1000
"""Connections above the quota of their address that wait to be closed; further ones are closed at once."""
HELD_SHARE = 16
"""Where descriptors are few, one in so many of those for connections is for these."""
WARNING_INTERVAL_SECONDS = 10.0
"""The same warning about the same host is logged no more often."""
MOST_WARNINGS_OF_A_HOST = 50
MOST_WARNINGS = 100
"""So many warnings that differ are logged in that time, as a peer may choose a part of the reason."""
MAX_WARNING_CHARACTERS = 1000
"""Limit of each part of a warning: the peer may have chosen it, such as a name of 32 kB."""


class Server:
    """Serves one broker on all its listeners."""

    def __init__(
        self,
        broker: WireContext,
        codecs: Mapping[str, WireCodec],
        transports: Mapping[str, TransportBackend],
        sasl_mechanism: Callable[[str], SaslMechanismBackend],
    ) -> None:
        """`codecs` and `transports` have those of each listener, by its name.

        `sasl_mechanism` returns a mechanism by its name, or raises PluginError.
        """
        config = broker.config
        self._backends = transports
        self._transports: dict[str, ListenerTransport] = {}
        self._sasl_mechanism = sasl_mechanism
        self._authentications: dict[str, ListenerAuthentication] = {}
        self._unproven: dict[Connection, tuple[WireConnection, float]] = {}
        self._broker = broker
        self._codecs = codecs
        idle_ms = config[keys.CONNECTIONS_MAX_IDLE_MS]
        self._most_idle_sweeps = math.inf if idle_ms < 0 else idle_ms / 1000 / SWEEP_SECONDS
        self._limits = ConnectionLimits(
            config[keys.MAX_CONNECTIONS],
            config[keys.MAX_CONNECTIONS_PER_IP],
            limits_by_address(config[keys.MAX_CONNECTIONS_PER_IP_OVERRIDES]),
            max_by_descriptors=connections_within(disk.raise_descriptor_limit()),
        )
        windows = SampleWindows(config[keys.QUOTA_WINDOW_NUM], config[keys.QUOTA_WINDOW_SIZE_SECONDS])
        self._rate_windows = windows
        self._creation_rate = ConnectionRate(windows)
        self._listener_rates: dict[str, ConnectionRate] = {}
        self.use_limits()
        self._address_rates = AddressRates(windows)
        self._quotas: QuotasByEntity = {}
        self._held = 0
        self._memory = MemoryReturn()
        keep_freed_blocks(KEPT_BYTES)
        limit_bytes = config[keys.QUEUED_MAX_REQUEST_BYTES]
        self.request_memory = RequestMemory(limit_bytes if limit_bytes > 0 else memory_bytes() // 4)
        self._busy_poll = BusyPoll(config[keys.SOCKET_BUSY_POLL_US] / 1e6, Processors())
        self._turns = Turns()
        self._quiet_clients = QuietClients()
        self._connections: set[Connection] = set()
        self._one_ended = trio.Event()
        self._when_ended = self._ended  # one object for all connections
        self._stopping = False
        self._listeners: list[BoundListener] = []

    async def follow(self, change: ImageChange) -> None:
        """Apply what a delta sets: limits on connections, and settings of transports."""
        config = self._broker.config
        if change.delta.configures_broker(config[keys.NODE_ID]):
            self.use_limits()
            for transport in self._transports.values():
                transport.follow(config)

    def check(self, config: Config) -> None:
        """Check that the listeners can use another configuration.

        Raises:
            ConfigError: one of them cannot; says which and why.
        """
        for transport in self._transports.values():
            transport.check(config)
        for authentication in self._authentications.values():
            for mechanism in authentication.mechanisms.values():
                mechanism.check(config)

    def use_limits(self) -> None:
        """Apply the limits on connections that the configuration has now."""
        config = self._broker.config
        names = [listener.name for listener in config.served_listeners()]
        per_listener = {name: config.of_listener_alone(keys.MAX_CONNECTIONS, name) for name in names}
        self._limits.change(config[keys.MAX_CONNECTIONS], config[keys.MAX_CONNECTIONS_PER_IP], per_listener)
        self._most_created = config[keys.MAX_CONNECTION_CREATION_RATE]
        self._most_created_by = {
            name: config.of_listener_alone(keys.MAX_CONNECTION_CREATION_RATE, name) for name in names
        }

    def bind(self) -> dict[str, tuple[str, int]]:
        """Bind all listeners: name → (host, port) as bound.

        Raises:
            ConfigError: an address cannot be used, or a transport cannot be had.
        """
        config = self._broker.config
        for listener in config.served_listeners():
            name = listener.name
            self._transports[name] = self._backends[name].create(config, name)
            if listener.security_protocol.startswith(SASL):
                self._authentications[name] = self._authentication(listener)
            self._listeners.append(BoundListener(listener, self._broker.config))
        return {bound.listener.name: (bound.host, bound.port) for bound in self._listeners}

    def authentication_of(self, listener: str) -> ListenerAuthentication | None:
        """Return how clients of a listener authenticate, None where they do not."""
        return self._authentications.get(listener)

    def _authentication(self, listener: ServedListener) -> ListenerAuthentication:
        """Return the authentication of a listener.

        Raises:
            ConfigError: the configuration has not what it needs.
        """
        # Not at the top: a broker without SASL never needs them.
        from tidelog.kernel.request import ListenerAuthentication
        from tidelog.kernel.seams.sasl import SaslContext

        name, config, broker = listener.name, self._broker.config, self._broker
        if not isinstance(self._codecs[name], AuthenticatingWireCodec):
            # Its clients would be served without.
            raise ConfigError(
                f"listener {name}: its wire protocol {listener.codec} has no authentication, and "
                f"{listener.security_protocol} needs it; use PLAINTEXT or SSL"
            )
        enabled = config.of_listener(keys.SASL_ENABLED_MECHANISMS, name)
        context = SaslContext(config, name, lambda: broker.image, broker.clock)
        try:
            mechanisms = {each: self._sasl_mechanism(each).create(context) for each in enabled}
        except PluginError as error:
            raise ConfigError(f"listener {name}: {error} Set sasl.enabled.mechanisms.") from error
        if not mechanisms:
            raise ConfigError(f"listener {name}: sasl.enabled.mechanisms is empty, so no client could log in")
        return ListenerAuthentication(config, name, mechanisms, broker.clock)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept and serve until cancelled; connections are ended at once then."""
        with self._busy_poll.processors, self._quiet_clients:
            await self._serve_until_cancelled(task_status)

    async def _serve_until_cancelled(self, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as connections:
            connections.start_soon(self._sweep_forever)
            connections.start_soon(self._quiet_clients.run)
            for bound in self._listeners:
                connections.start_soon(self._accept, bound, connections)
                connections.start_soon(self._transports[bound.listener.name].run)
            for authentication in self._authentications.values():
                for mechanism in authentication.mechanisms.values():
                    connections.start_soon(mechanism.run)
            task_status.started()

    async def finish(self) -> None:
        """Accept no new connection, and wait until every request in progress is answered."""
        # First: a connection whose accept was paused may still come, and is finished at once by `_serve`.
        self._stopping = True
        self.close_listeners()
        for connection in tuple(self._connections):
            connection.finish()
        while self._connections:
            # No checkpoint lies between the look at the connections and the wait, so no end is missed.
            self._one_ended = trio.Event()
            await self._one_ended.wait()

    def close_listeners(self) -> None:
        """Take no new connections."""
        for bound in self._listeners:
            bound.close()
        self._listeners.clear()

    def statistics(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts of each wire protocol that has some, by its name."""
        codecs = set(self._codecs.values())
        return {codec.name: codec.statistics() for codec in codecs if isinstance(codec, CountingWireCodec)}

    def meter_sources(self) -> Sequence[MeterSource]:
        """Return what the wire protocols measure."""
        codecs = dict.fromkeys(self._codecs.values())
        return [codec.meters for codec in codecs if isinstance(codec, MeteredWireCodec)]

    def connections_by_listener(self) -> Mapping[str, int]:
        """Return the connections that are open now, by the name of the listener."""
        return self._limits.by_listener(self._codecs)

    @property
    def connection_count(self) -> int:
        """Connections that are open now."""
        return len(self._connections)

    async def _accept(self, bound: BoundListener, connections: trio.Nursery) -> None:
        def handle(sock: socket.socket, address: tuple[str, int]) -> None:
            peer = Peer(address[0], address[1], bound.listener.name)
            if seconds := self._address_pause(peer.host, connections):
                connections.start_soon(self._close_after, sock, seconds)
                return
            refusal = self._limits.refusal(peer.host)
            if refusal is None:
                self._limits.opened(peer.host, peer.listener_name)
                try:
                    made = transport.accept(sock, peer)
                except Exception as error:
                    sock.close()
                    self._end_refused(error, peer)
                    return
                if isinstance(made, Awaitable):
                    connections.start_soon(self._serve_once_agreed, made, peer, connections, name=TASK_NAME)
                else:
                    self._serve(made, peer, connections)
            else:
                sock.close()
                self._broker.peer_warnings.warn(peer, "refusing a connection of", refusal)

        name, transport = bound.listener.name, self._transports[bound.listener.name]
        try:
            await bound.accept_forever(
                partial(self._limits.wait_for_room, name), partial(self._creation_pause, name), handle
            )
        except trio.ClosedResourceError:
            return

    def _creation_pause(self, listener: str) -> float:
        """Return for how many seconds the next connection waits until both rates are within their limits."""
        now = trio.current_time()
        own = self._listener_rates.setdefault(listener, ConnectionRate(self._rate_windows))
        of_listener = own.pause(now, self._most_created_by[listener])
        return max(of_listener, self._creation_rate.pause(now, self._most_created))

    def _address_pause(self, host: str, nursery: trio.Nursery) -> float:
        """Return for how many seconds a connection is held and then closed, 0 if it is served."""
        quotas = self._broker.image.quotas
        # An image never changes, so another object means other quotas: one comparison for each connection.
        if quotas is not self._quotas:
            self._quotas = quotas
            if hosts := self._address_rates.use(quotas):
                nursery.start_soon(self._resolve_quotas, hosts, quotas)
        return self._address_rates.pause(host, trio.current_time())

    async def _resolve_quotas(self, hosts: list[str], quotas: QuotasByEntity) -> None:
        """Apply the quotas of host names, unless there are other quotas by then."""
        addresses: dict[str, list[str]] = {}
        for host in hosts:
            try:
                found = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):
                _log.warning("the quota of connections of %r is not applied: no such host", host)
            else:
                addresses[host] = [str(address[0]) for *_, address in found]
        # Resolving takes a while: by then newer quotas may be applied, which these must not replace.
        if quotas is self._quotas:
            self._address_rates.use_hosts(quotas, addresses)

    async def _close_after(self, sock: socket.socket, seconds: float) -> None:
        # Closed at once where too many are held: a flood must not take the descriptors.
        with sock:
            if self._held < min(MOST_HELD_BEFORE_CLOSING, self._limits.max_by_descriptors // HELD_SHARE):
                self._held += 1
                try:
                    await trio.sleep(seconds)
                finally:
                    self._held -= 1

    async def _serve_once_agreed(
        self, made: Awaitable[Transport], peer: Peer, connections: trio.Nursery
    ) -> None:
        """Serve a connection whose transport the peer has to agree on first."""
        try:
            transport = await made
        except BaseException as error:
            self._end_refused(error, peer)
            if not isinstance(error, Exception):
                raise
        else:
            self._serve(transport, peer._replace(principal=transport.principal), connections)

    def _end_refused(self, error: BaseException, peer: Peer) -> None:
        """Count a connection that no transport has taken over as closed; log why, but for a cancellation."""
        self._limits.closed(peer.host, peer.listener_name)
        self._memory.connection_ended(0)
        if isinstance(error, TransportRefused):
            self._broker.peer_warnings.warn(peer, "closing the connection of", error)
        elif isinstance(error, OSError):
            _log.debug("connection of %s ended before it was served: %s", peer, error)
        elif isinstance(error, Exception):
            self._broker.peer_warnings.report_failure(peer, error)

    def _serve(self, transport: Transport, peer: Peer, connections: trio.Nursery) -> None:
        memory = self.request_memory.share()
        try:
            wire = self._codecs[peer.listener_name].connect(self._broker, peer, memory)
        except Exception as error:
            transport.close()
            self._limits.closed(peer.host, peer.listener_name)
            self._broker.peer_warnings.report_failure(peer, error)
            return
        warnings = self._broker.peer_warnings
        connection = Connection(
            transport,
            wire,
            peer,
            warnings,
            self._busy_poll,
            self._turns,
            self._quiet_clients,
            memory,
        )
        self._connections.add(connection)
        if peer.listener_name in self._authentications:
            self._unproven[connection] = wire, self._broker.loop_clock() + AUTHENTICATION_SECONDS
        if self._stopping:
            connection.finish()
        connections.start_soon(connection.run, self._when_ended, name=TASK_NAME)

    def _ended(self, connection: Connection) -> None:
        # Read before the share is closed, which gives all of it back.
        held_bytes = connection.memory.held_bytes
        connection.memory.close()
        self._connections.remove(connection)
        self._unproven.pop(connection, None)
        self._limits.closed(connection.peer.host, connection.peer.listener_name)
        self._memory.connection_ended(held_bytes)
        self._one_ended.set()

    async def _sweep_forever(self) -> None:
        while True:
            await trio.sleep(SWEEP_SECONDS)
            await self._memory.trim_if_worthwhile()
            self.request_memory.sweep()
            self._end_unproven()
            await self._sweep_all()

    def _end_unproven(self) -> None:
        """End connections whose clients have not authenticated in time: they are in the order of that."""
        now = self._broker.loop_clock() if self._unproven else 0.0
        for connection, (wire, deadline) in tuple(self._unproven.items()):
            if deadline > now:
                return
            del self._unproven[connection]
            codec = self._codecs[connection.peer.listener_name]
            if isinstance(codec, AuthenticatingWireCodec) and codec.awaits_authentication(wire):
                reason = f"it did not authenticate within {AUTHENTICATION_SECONDS:g} s"
                self._broker.peer_warnings.warn(connection.peer, "closing the connection of", reason)
                connection.abort()

    async def _sweep_all(self) -> None:
        # Not within the loop above: that would keep the last connection, and its buffer, while it sleeps.
        for swept, connection in enumerate(tuple(self._connections), 1):
            # It may have ended since the sweep began.
            if connection in self._connections:
                sweeps = connection.sweep()
                if sweeps >= self._most_idle_sweeps or sweeps == RELEASE_MEMORY_AFTER_SWEEPS:
                    self._idles(connection, sweeps)
            if swept % SWEPT_BEFORE_YIELD == 0:
                await trio.lowlevel.checkpoint()

    def _idles(self, connection: Connection, sweeps: int) -> None:
        if sweeps >= self._most_idle_sweeps:
            _log.info("closing the idle connection of %s", connection.peer)
            connection.abort()
        else:
            connection.release_memory()


class PeerWarnings:
    """Warnings about the peers of one broker, rate-limited so that none can flood the log."""

    def __init__(
        self, plugins: Mapping[str, str] | None = None, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        """`plugins` maps the modules of plugins to their names."""
        self._plugins = plugins or {}
        self._limit = RateLimit(WARNING_INTERVAL_SECONDS, now=now)
        self._of_host = RateLimit(WARNING_INTERVAL_SECONDS, most=MOST_WARNINGS_OF_A_HOST, now=now)
        self._of_all = RateLimit(WARNING_INTERVAL_SECONDS, most=MOST_WARNINGS, now=now)

    def warn(self, peer: Peer, what: str, reason: object, *, alike: str | None = None) -> None:
        """Log `what` happened to the peer, where and why, unless the same was logged a moment ago.

        Reasons that differ only in their numbers are the same when they have the same `alike`.
        """
        what, text = what[:MAX_WARNING_CHARACTERS], str(reason)[:MAX_WARNING_CHARACTERS]
        listener = peer.listener_name
        suppressed = self._limit.admit(f"{peer.host} {what} {listener} {alike or text}")
        if suppressed is None:
            return
        # One host alone cannot use up what there is for all.
        of_host = self._of_host.admit(peer.host)
        of_all = None if of_host is None else self._of_all.admit(what)
        if of_host is None or of_all is None:
            return
        again = f" (and {suppressed} times more before)" if suppressed else ""
        if left_out := of_host + of_all:
            again += f" ({left_out} other warnings about connections were left out before)"
        _log.warning("%s %s at %s: %s%s", what, peer, listener, text, again, extra={"peer": str(peer)})

    def report_failure(self, peer: Peer, error: Exception) -> None:
        """Log an error of the broker that ends a connection, and the plugin that it is from."""
        where = raised_in(error, self._plugins)
        extra = {"peer": str(peer), **({"plugin": where.plugin} if where.plugin else {})}
        text = "the connection of %s at %s failed inside the broker, in %s"
        _log.error(text, peer, peer.listener_name, where, exc_info=error, extra=extra)
