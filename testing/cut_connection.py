"""Connections that end in the middle of a response, where a fault of a test says so."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, cast

import attrs

from tidelog.kernel.seams.storage import FileRegion
from tidelog.plugins.protocol_kafka.codec import KafkaCodec
from tidelog.plugins.schema.types import size_of, total_size
from tidelog.testing.faults import ConnectionDropped, InjectedFaults

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import Parts, Peer, ReceiveMemory, WireConnection, WireContext

CODEC_NAME: Final = "kafka-with-faults"


class CuttingCodec(KafkaCodec):
    """Kafka's protocol over connections that faults may cut."""

    name = CODEC_NAME

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Return the protocol state of a new connection."""
        faults = next(each for each in broker.request_stages if isinstance(each, InjectedFaults))
        return CutConnection(super().connect(broker, peer, memory), peer, faults)

    def awaits_authentication(self, connection: WireConnection) -> bool:
        """Return whether its client has to prove who it is."""
        inner = connection.inner if isinstance(connection, CutConnection) else connection
        return super().awaits_authentication(inner)


class CutConnection:
    """A connection of Kafka's protocol, which ends after the first half of a response that is to be cut."""

    def __init__(self, inner: WireConnection, peer: Peer, faults: InjectedFaults) -> None:
        self.inner = inner
        self._peer = peer.host, peer.port
        self._faults = faults
        self._is_cut = False
        self.receive_buffer = inner.receive_buffer
        self.bytes_received = inner.bytes_received
        self.release_memory = inner.release_memory
        self.close = inner.close

    @property
    def records_received(self) -> int:
        """How many records the last request brought."""
        return self.inner.records_received

    @property
    def current_request(self) -> str:
        """The request that is being served, or was last."""
        return self.inner.current_request

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        """Serve the next request.

        Raises:
            ConnectionDropped: the response before was cut.
            ProtocolViolation, ConnectionFinished: as the connection itself does.
        """
        if self._is_cut:
            raise ConnectionDropped("a fault of the test drops the connection in the middle of a response")
        step = self.inner.next_step()
        if step is None or isinstance(step, list):
            return step and self._sent(step)
        return self._sent_later(step)

    async def _sent_later(self, step: Awaitable[Parts]) -> Parts:
        return self._sent(await step)

    def _sent(self, parts: Parts) -> Parts:
        if not self._faults.takes_cut(self._peer):
            return parts
        self._is_cut = True
        return _first_half(parts)


def _first_half(parts: Parts) -> Parts:
    left, kept = total_size(parts) // 2, list[object]()
    for part in parts:
        size = size_of(part)
        if size > left:
            if isinstance(part, FileRegion):
                kept.append(attrs.evolve(part, size=left))
            elif isinstance(part, bytes | memoryview):
                kept.append(part[:left])
            break
        kept.append(part)
        left -= size
    return cast("Parts", kept)
