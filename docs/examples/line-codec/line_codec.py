"""The wire codec `line-records`: each line is a record for the topic that it begins with."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from tidelog.kernel import hookimpl
from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.wire import (
    Parts,
    Peer,
    ProtocolViolation,
    ReceiveMemory,
    WireCodec,
    WireConnection,
    WireContext,
)
from tidelog.plugins.client import NewRecord, build_batch

TIDELOG_INTERFACE = "1.0"
MOST_LINE_BYTES = 8 * 1024


class LineConnection:
    """One connection: bytes in, answers out."""

    records_received = 0
    current_request = "a line"

    def __init__(self, broker: WireContext) -> None:
        self._broker = broker
        self._received = bytearray()
        self._buffer = bytearray(MOST_LINE_BYTES)

    def receive_buffer(self) -> memoryview:
        return memoryview(self._buffer)

    def bytes_received(self, count: int) -> None:
        self._received += self._buffer[:count]

    def next_step(self) -> Parts | Awaitable[Parts] | None:
        end = self._received.find(b"\n")
        if end < 0:
            if len(self._received) > MOST_LINE_BYTES:
                raise ProtocolViolation(f"a line has more than {MOST_LINE_BYTES} bytes")
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return self._answer(line)

    async def _answer(self, line: bytes) -> Parts:
        topic, _, text = line.partition(b" ")
        try:
            await self._append(topic.decode(errors="replace"), text)
        except BrokerError as error:
            return [b"error " + str(error).replace("\n", " ").encode() + b"\n"]
        return [b"ok\n"]

    async def _append(self, topic: str, text: bytes) -> None:
        partitions = self._broker.topics.get(topic).partitions
        log = partitions[0].log
        appended = log.append_as_leader(build_batch([NewRecord(text)], now_ms=self._broker.clock()))
        result = appended if isinstance(appended, AppendResult) else await appended
        if result.flush_due:
            await log.wait_flushed(result.last_offset)
        self.records_received = 1

    def release_memory(self) -> None:
        """Do nothing: the buffers are small."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class LineCodec:
    name = "line-records"

    def connect(self, broker: WireContext, peer: Peer, memory: ReceiveMemory) -> WireConnection:
        return LineConnection(broker)


@hookimpl
def tidelog_wire_codecs() -> Iterable[WireCodec]:
    return [LineCodec()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    from line_codec_conformance import LineConformance

    return [LineConformance]
