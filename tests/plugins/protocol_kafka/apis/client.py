"""A client without a socket: encoded requests into a connection's protocol state, decoded answers out."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Sequence
from typing import Any, cast

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.requests import RequestStage
from tidelog.kernel.seams.storage import FileRegion
from tidelog.kernel.seams.wire import Parts, Peer, StreamedBytes, WireConnection
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry
from tidelog.plugins.protocol_kafka.connection import KafkaConnection, fetch_session_cache
from tidelog.plugins.protocol_kafka.fetch_session_cache import FetchSessionCache
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.header import encode_request, parse_response_header
from tidelog.plugins.protocol_kafka.routes import Routes
from tidelog.plugins.schema import decode

PEER = Peer("127.0.0.1", 4711, "PLAINTEXT")
CORRELATION_ID = 77

Step = Parts | Awaitable[Parts]


def versions_of(api: Api, first: int = 0, last: int | None = None) -> Sequence[int]:
    """Every version of the API that is served, within these bounds."""
    span = api.versions
    return range(max(first, span.low), min(span.high, 999 if last is None else last) + 1)


def framed(
    api: Api,
    version: int,
    request: object,
    correlation_id: int = CORRELATION_ID,
    client_id: str | None = "tests",
) -> bytes:
    """A request as it comes from the socket."""
    parts = encode_request(api.key, version, correlation_id, client_id, request)
    return b"".join(cast("list[bytes]", parts))


def joined(parts: Parts) -> bytes:
    """What would be sent."""
    out = bytearray()
    for part in parts:
        assert not isinstance(part, FileRegion | StreamedBytes)
        out += part
    return bytes(out)


async def streamed(parts: Parts) -> bytes:
    """What would be sent, with what is computed meanwhile."""
    out = bytearray()
    for part in parts:
        assert not isinstance(part, FileRegion)
        if isinstance(part, StreamedBytes):
            end = len(out) + part.size
            while len(out) < end:
                out += await part.next_piece()
            del out[end:]
        else:
            out += part
    return bytes(out)


class ReadyRoutes(Routes):
    """Routes that are prepared at once, so that no request waits for a thread."""

    def __init__(self, broker: Broker, stages: Sequence[RequestStage]) -> None:
        super().__init__(
            BUILT_IN,
            stages,
            authorization=broker.authorization,
            quotas=broker.client_quotas,
            interception=broker.interception,
            has_metrics_receiver=True,
        )
        self._broker = broker

    def is_ready(self, asked: tuple[int, int]) -> bool:
        """Make it so."""
        if not super().is_ready(asked):
            self.prepare(asked, self._broker)
        return True


class Client:
    """One connection to a broker."""

    def __init__(
        self,
        broker: Broker,
        peer: Peer = PEER,
        telemetry: ClientTelemetry | None = None,
        fetch_sessions: FetchSessionCache | None = None,
        stages: Sequence[RequestStage] = (),
    ) -> None:
        self.broker = broker
        self.routes = ReadyRoutes(broker, stages)
        self.fetch_sessions = fetch_session_cache(broker) if fetch_sessions is None else fetch_sessions
        self.wire: WireConnection = KafkaConnection(
            broker, peer, self.routes, telemetry, fetch_sessions=self.fetch_sessions
        )

    def receive(self, data: bytes) -> None:
        """These bytes come from the socket."""
        rest = memoryview(data)
        while rest:
            room = self.wire.receive_buffer()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.wire.bytes_received(count)
            rest = rest[count:]

    def start(self, api: Api, version: int, request: object) -> Step:
        """The step that serves this request, not awaited yet; it does not wait for imports."""
        self.receive(framed(api, version, request))
        step = self.wire.next_step()
        assert step is not None
        return step

    async def finish(self, api: Api, version: int, step: Step) -> Any:
        """The answer that a step leads to."""
        return answer_in(api, version, await self.finish_parts(step))

    async def finish_parts(self, step: Step) -> bytes:
        """What a step sends."""
        return await streamed(step if isinstance(step, list) else await step)

    async def ask(self, api: Api, version: int, request: object) -> Any:
        """Serve a request; its answer."""
        answer = await self.finish(api, version, self.start(api, version, request))
        assert self.wire.next_step() is None
        return answer


def answer_in(api: Api, version: int, frame: bytes, correlation_id: int = CORRELATION_ID) -> Any:
    """The message in an answer's frame, whose size and header are checked."""
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    found, position = parse_response_header(api.key, version, memoryview(frame)[4:])
    assert found == correlation_id
    return decode(api.response_class, version, frame[4 + position :])
