"""A wire codec: answers each line with that line and the number of topics."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.seams.wire import (
    Parts,
    Peer,
    ReceiveMemory,
    WireCodec,
    WireConnection,
    WireContext,
)

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

MAX_LINE_BYTES = 1024


class SkeletonConnection:
    """One connection; it gets bytes and returns bytes, and has no socket."""

    records_received = 0
    current_request = "a line"

    def __init__(self, broker: WireContext) -> None:
        self._broker = broker
        self._received = bytearray()
        self._buffer = bytearray(MAX_LINE_BYTES)

    def receive_buffer(self) -> memoryview:
        """Return where to receive."""
        return memoryview(self._buffer)

    def bytes_received(self, count: int) -> None:
        """Take over what was received."""
        self._received += self._buffer[:count]

    def next_step(self) -> Parts | None:
        """Return the answer to the next request, None if there is none yet."""
        line, newline, rest = self._received.partition(b"\n")
        if not newline:
            # A peer that sends no line end must not fill the memory.
            del self._received[:-MAX_LINE_BYTES]
            return None
        self._received = rest
        return [bytes(line) + b": %d topics\n" % len(self._broker.topics)]

    def release_memory(self) -> None:
        """Shrink buffers of a connection that idles."""

    def close(self) -> None:
        """End it."""


class SkeletonCodec:
    """What `listener.codec.map` chooses for a listener."""

    name = "skeleton"

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        """Return the state of a new connection."""
        return SkeletonConnection(broker)


@hookimpl
def tidelog_wire_codecs() -> Iterable[WireCodec]:
    """Offer the codec."""
    return [SkeletonCodec()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the codec."""
    from tidelog.plugins.scaffold.skeletons.codec_conformance import SkeletonCodecConformance

    return [SkeletonCodecConformance]
