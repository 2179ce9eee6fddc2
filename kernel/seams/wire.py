"""The wire seam: a protocol plugin turns bytes into calls of the broker, and results into bytes.

A connection object is sans-IO: it never touches a socket. The server (`tidelog.kernel.network`) owns the
stream and drives it:

    buffer = connection.receive_buffer()      the server reads from the socket into it
    connection.bytes_received(n)
    while (step := connection.next_step()) is not None:
        a list of parts  → bytes, file regions and streamed bytes to send, in order
        an awaitable     → the response has to wait (long poll); earlier ones are sent first
        `UntilPeerSends` → the same, and what the peer sends ends the wait (streams)

Requests of one connection are answered in order, one at a time, as Kafka does (Kafka protocol guide,
"Network").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import attrs

from tidelog.kernel.seams.broker import BrokerContext
from tidelog.kernel.seams.meters import MeterSource
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.storage import Region, Storage

if TYPE_CHECKING:
    from tidelog.kernel.cluster.broker_loggers import BrokerLoggers
    from tidelog.kernel.cluster.features import Features
    from tidelog.kernel.network.server import PeerWarnings
    from tidelog.kernel.request import Authorization, ListenerAuthentication
    from tidelog.kernel.request.client_quotas import ClientQuotas
    from tidelog.kernel.request.interception import Interception
    from tidelog.kernel.seams.controller import Controller
    from tidelog.kernel.seams.coordination.backend import Coordinator
    from tidelog.kernel.seams.requests import RequestStage


@attrs.frozen
class StreamedBytes:
    """`size` bytes of a response that are computed in pieces while they are sent: together they are too many.

    The server awaits `next_piece()` until they are all sent. Each piece has at least one byte; what the last
    one has beyond `size` is not sent. A piece that takes long to compute is computed in a thread. It raises
    nothing: the size was promised.
    """

    size: int
    next_piece: Callable[[], Awaitable[bytes]]


Part: TypeAlias = Region | StreamedBytes
Parts: TypeAlias = list[Part]


class ProtocolViolation(Exception):
    """The peer violated the protocol: the connection is closed, the message is logged."""


class ConnectionFinished(Exception):
    """The protocol has no more to say: the connection is closed, once the peer has read what was sent."""


@attrs.frozen
class UntilPeerSends(Awaitable[Parts]):
    """A step that waits, for as long as the peer sends nothing: a stream of events, or an open WebSocket.

    `wait()` is cancelled when bytes of the peer have arrived, or is not called if they were there before. The
    next step has to be None then, so that they are read.
    """

    wait: Callable[[], Awaitable[Parts]]

    def __await__(self) -> Generator[Any, Any, Parts]:
        """Wait without a look at the peer."""
        return self.wait().__await__()


class Peer(NamedTuple):
    """The client of a connection: its address, for logs, and the listener that it connected to.

    `principal` is who its transport has found it to be, with TLS by its certificate.
    """

    host: str
    port: int
    listener_name: str
    principal: Principal = ANONYMOUS

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class WireContext(BrokerContext, Protocol):
    """What a wire codec may use of its broker; connections are accepted once all of it is open."""

    @property
    def request_stages(self) -> Sequence[RequestStage]:
        """What is done before and after the handler of each request, in order."""
        ...

    @property
    def authorization(self) -> Authorization | None:
        """Who may do what, None where everyone may do everything."""
        ...

    def authentication_of(self, listener: str) -> ListenerAuthentication | None:
        """Return how clients of a listener authenticate, None where they do not."""
        ...

    @property
    def interception(self) -> Interception | None:
        """What intercepts batches, None where nothing does."""
        ...

    @property
    def client_quotas(self) -> ClientQuotas | None:
        """What clients have used of their quotas, None where no client is throttled."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """The coordinator of groups and transactions.

        All that is asked of it raises `CoordinatorNotAvailable` if no plugin that has one is installed.
        """
        ...

    @property
    def storage(self) -> Storage:
        """The log directories, and moving partitions between them."""
        ...

    @property
    def controller(self) -> Controller:
        """The controller, which takes changes of what is in the image."""
        ...

    @property
    def features(self) -> Features:
        """The features that brokers and clients of the cluster have agreed to use."""
        ...

    @property
    def loggers(self) -> BrokerLoggers:
        """The levels of the broker's loggers."""
        ...

    @property
    def peer_warnings(self) -> PeerWarnings:
        """The warnings about peers."""
        ...

    async def allocate_producer_id(self) -> int:
        """Return a producer id that was never returned before.

        Raises:
            StorageError: the disk refused to record the allocation.
        """
        ...


class ReceiveMemory(Protocol):
    """The share of a connection in the memory that all requests may have (`queued.max.request.bytes`)."""

    def resize(self, size_bytes: int) -> bool:
        """Take so many bytes in all, or give back down to that.

        Return False, with what it had before, if they are not there. A connection that cannot do without
        returns a receive buffer without a byte then, and the server waits for them.
        """
        ...


class WireConnection(Protocol):
    """One connection's protocol state."""

    @property
    def records_received(self) -> int:
        """How many records the last request brought: its client was busy with them, and not idle."""
        ...

    @property
    def current_request(self) -> str:
        """The request that is being served, or was last, in words for the log; empty before the first."""
        ...

    def receive_buffer(self) -> memoryview:
        """Return a writable buffer for the next bytes of the peer.

        It has no byte if memory for it was refused: the server asks again when there is some.
        """
        ...

    def bytes_received(self, count: int) -> None:
        """Process `count` bytes that were written to the start of the last receive buffer."""
        ...

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next request; return its response (empty without one), None if bytes are missing.

        Raises:
            ProtocolViolation, ConnectionFinished: the connection must be closed; earlier responses are sent
                first.
        """
        ...

    def release_memory(self) -> None:
        """Release large buffers, since the connection is idle."""
        ...

    def close(self) -> None:
        """Release everything: the connection has ended."""
        ...


class WireCodec(Protocol):
    """A wire protocol, as a plugin offers it."""

    @property
    def name(self) -> str:
        """The name by which listeners choose it."""
        ...

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Return the protocol state of a new connection; buffers of more than some KiB are from `memory`."""
        ...


@runtime_checkable
class AuthenticatingWireCodec(Protocol):
    """A wire protocol that authenticates clients where `WireContext.authentication_of` asks for it."""

    def awaits_authentication(self, connection: WireConnection) -> bool:
        """Return whether the client of a connection has not proven yet who it is."""
        ...


@runtime_checkable
class MeteredWireCodec(Protocol):
    """A wire protocol that measures its requests."""

    @property
    def meters(self) -> MeterSource:
        """What was measured of all connections; the kernel exports it."""
        ...


@runtime_checkable
class CountingWireCodec(Protocol):
    """A wire protocol with statistics, which `broker.server.statistics()` shows."""

    def statistics(self) -> Mapping[str, int]:
        """Return counts of all connections by name."""
        ...
