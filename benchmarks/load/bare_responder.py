"""Not a broker: the quickest answers that a producer takes for one, and nothing is kept.

    python -m benchmarks.load.bare_responder PARTITIONS

Run as a program it prints its port and serves one client after another's connection in threads, each of which
stays awake for a while after an answer. What a producer then measures is itself and two trips over the
loopback.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import sys
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    FETCH,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.plugins.protocol_kafka.messages.header import parse_request_header
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdResponse
from tidelog.plugins.protocol_kafka.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tidelog.plugins.schema import decoder, encode

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVED: Final = {
    PRODUCE: 11,
    METADATA: 12,
    API_VERSIONS: 3,
    INIT_PRODUCER_ID: 4,
    # Never asked for: without them librdkafka sends messages of an old format, and does not compress.
    FETCH: 12,
    FIND_COORDINATOR: 3,
}
_BY_KEY = {api.key: api for api in _SERVED}
_BUFFER_BYTES = 2_000_000
_AWAKE_SECONDS = 0.001
"""Longer than a client takes that sends its next record as soon as it has the answer."""
_LENGTH = struct.Struct(">i")
_HEAD = struct.Struct(">ii")
_NODE = 1
_TOPIC_ID = bytes(15) + b"\1"


def serve(partitions: int) -> None:
    """Print the port, then answer until the process is ended; every topic has so many partitions."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        print(port, flush=True)
        while True:
            connection, _ = listener.accept()
            Thread(target=_serve, args=(connection, port, partitions), daemon=True).start()


def _serve(connection: socket.socket, port: int, partitions: int) -> None:
    # A client that is killed at the end of its load leaves answers unread.
    with connection, contextlib.suppress(ConnectionError):
        _answer_all(connection, port, partitions)


def _answer_all(connection: socket.socket, port: int, partitions: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    offsets = itertools.count()
    for frame in _frames(connection):
        header = parse_request_header(frame)
        api, version = _BY_KEY[header.api_key], header.api_version
        request, _ = decoder(api.request_class, version)(frame, header.body_position)
        body = encode(_answer(request, port, partitions, next(offsets)), version)
        tags = b"\0" if api.response_header_version(version) else b""
        head = _HEAD.pack(4 + len(tags) + len(body), header.correlation_id)
        connection.sendall(head + tags + body)


def _frames(connection: socket.socket) -> Iterator[memoryview]:
    """Whole frames; each is valid until the next one is asked for."""
    buffer = memoryview(bytearray(_BUFFER_BYTES))
    filled = 0
    while count := _receive(connection, buffer[filled:]):
        filled += count
        start = 0
        while filled - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(buffer, start)[0]
            if end > filled:
                break
            yield buffer[start + _LENGTH.size : end]
            start = end
        if start:
            buffer[: filled - start] = bytes(buffer[start:filled])
            filled -= start


def _receive(connection: socket.socket, room: memoryview) -> int:
    until = perf_counter() + _AWAKE_SECONDS
    while perf_counter() < until:
        with contextlib.suppress(BlockingIOError):
            return connection.recv_into(room, 0, socket.MSG_DONTWAIT)
    return connection.recv_into(room)


def _answer(request: Any, port: int, partitions: int, offset: int) -> object:
    match type(request).__name__:
        case "ProduceRequest":
            return ProduceResponse(
                responses=[
                    TopicProduceResponse(
                        name=topic.name,
                        partition_responses=[
                            PartitionProduceResponse(index=each.index, error_code=0, base_offset=offset)
                            for each in topic.partition_data
                        ],
                    )
                    for topic in request.topic_data
                ]
            )
        case "MetadataRequest":
            return _metadata([topic.name for topic in request.topics or ()], port, partitions)
        case "InitProducerIdRequest":
            return InitProducerIdResponse(error_code=0, producer_id=1, producer_epoch=0)
        case _:
            keys = [
                ApiVersion(api_key=api.key, min_version=0, max_version=top) for api, top in _SERVED.items()
            ]
            return ApiVersionsResponse(error_code=0, api_keys=keys)


def _metadata(topics: list[str], port: int, partitions: int) -> MetadataResponse:
    led = [
        MetadataResponsePartition(
            error_code=0, partition_index=index, leader_id=_NODE, replica_nodes=[_NODE], isr_nodes=[_NODE]
        )
        for index in range(partitions)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=_NODE, host="127.0.0.1", port=port)],
        cluster_id="bare",
        controller_id=_NODE,
        topics=[
            MetadataResponseTopic(error_code=0, name=name, topic_id=_TOPIC_ID, partitions=led)
            for name in topics
        ],
    )


if __name__ == "__main__":
    serve(int(sys.argv[1]))
