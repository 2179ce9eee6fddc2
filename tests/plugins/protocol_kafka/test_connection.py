"""The sans-IO connection: requests at every split point, answers in order, and what ends a connection."""

from __future__ import annotations

import struct
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from tidelog.kernel.broker import Broker
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .apis.client import Client, answer_in, framed, joined
from .apis.topics import new_topic


@pytest.fixture
async def broker() -> AsyncGenerator[Broker]:
    """A running broker."""
    async with running_broker(clock=FakeClock()) as broker:
        await new_topic(broker)
        yield broker


def produce(acks: int, count: int = 1) -> ProduceRequest:
    """Append a batch."""
    data = PartitionProduceData(index=0, records=memoryview(make_batch([b"value"] * count)))
    topic = TopicProduceData(name="flights", partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def fetch(offset: int = 0) -> FetchRequest:
    """Read from there."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000)
    return FetchRequest(max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic="flights", partitions=[part])])


def metadata(*names: str) -> MetadataRequest:
    """Ask for topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])


SESSION: list[tuple[Any, int, object]] = [
    (API_VERSIONS, 3, ApiVersionsRequest(client_software_name="tests", client_software_version="1")),
    (METADATA, 12, metadata("flights")),
    (INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)),
    (PRODUCE, 9, produce(-1, 3)),
    (PRODUCE, 3, produce(0)),
    (FETCH, 12, fetch()),
    (API_VERSIONS, 0, ApiVersionsRequest()),
]
"""What a client asks; of these only the second Produce gets no answer."""


def session() -> bytes:
    """All requests of a session, numbered."""
    return b"".join(
        framed(api, version, request, number) for number, (api, version, request) in enumerate(SESSION)
    )


async def talk(broker: Broker, pieces: list[bytes]) -> bytes:
    """Everything that is answered to a client that sends these pieces."""
    client, out = Client(broker), bytearray()
    for piece in pieces:
        client.receive(piece)
        while (step := client.wire.next_step()) is not None:
            out += joined(step if isinstance(step, list) else await step)
    client.wire.close()
    return bytes(out)


def numbers(answers: bytes) -> list[int]:
    """Correlation ids of the answers."""
    found: list[int] = []
    position = 0
    while position < len(answers):
        size, number = struct.unpack_from(">ii", answers, position)
        found.append(number)
        position += 4 + size
    return found


async def test_next_step_answers_in_order_and_gives_no_answer_to_acks_0(broker: Broker) -> None:
    assert numbers(await talk(broker, [session()])) == [0, 1, 2, 3, 5, 6]


async def test_next_step_answers_requests_split_at_any_point(broker: Broker) -> None:
    stream = session()
    for at in range(0, len(stream), 7):
        assert numbers(await talk(broker, [stream[:at], stream[at:]])) == [0, 1, 2, 3, 5, 6]


async def test_next_step_answers_requests_that_arrive_byte_by_byte(broker: Broker) -> None:
    whole = await talk(broker, [session()])
    stream = session()
    pieces = await talk(broker, [stream[at : at + 1] for at in range(len(stream))])
    assert numbers(pieces) == numbers(whole)
    assert broker.topics.get("flights").partitions[0].log.log_end_offset == 2 * 4


async def test_next_step_gives_the_same_answers_for_reads_of_any_size(broker: Broker) -> None:
    stream = b"".join(framed(METADATA, version, metadata("flights"), version) for version in range(14))
    whole = await talk(broker, [stream])
    assert numbers(whole) == list(range(14))
    for size in (1, 2, 3, 5, 50, 500):
        assert await talk(broker, [stream[at : at + size] for at in range(0, len(stream), size)]) == whole


async def test_records_received_counts_those_of_the_last_request(broker: Broker) -> None:
    client, counts = Client(broker), list[int]()
    for stream in (
        framed(PRODUCE, 9, produce(-1, 3)),
        framed(PRODUCE, 9, produce(0, 200)),
        framed(METADATA, 12, metadata()),
    ):
        client.receive(stream)
        assert client.wire.next_step() is not None
        counts.append(client.wire.records_received)
    assert counts == [3, 200, 0]


async def test_next_step_answers_a_thousand_pipelined_requests(broker: Broker) -> None:
    stream = b"".join(framed(API_VERSIONS, 0, ApiVersionsRequest(), number) for number in range(1000))
    assert numbers(await talk(broker, [stream])) == list(range(1000))


async def test_a_long_poll_is_the_next_step_only_when_its_turn_comes(broker: Broker) -> None:
    """The server awaits each step before it asks for the next, so nothing behind a poll is begun."""
    client = Client(broker)
    waiting = fetch(0)
    waiting.max_wait_ms = 20
    client.receive(framed(FETCH, 12, waiting, 1) + framed(PRODUCE, 9, produce(-1), 2))
    poll = client.wire.next_step()
    assert poll is not None
    assert not isinstance(poll, list)
    answer = answer_in(FETCH, 12, joined(await poll), 1)
    assert answer.responses[0].partitions[0].high_watermark == 0
    produced = client.wire.next_step()
    assert isinstance(produced, list)
    assert answer_in(PRODUCE, 9, joined(produced), 2).responses[0].partition_responses[0].base_offset == 0


def by_hand(key: int, version: int, body: bytes = b"", client_id: bytes | None = b"tests") -> bytes:
    """A request whose parts need not fit."""
    length = -1 if client_id is None else len(client_id)
    frame = struct.pack(">hhih", key, version, 77, length) + (client_id or b"") + body
    return struct.pack(">i", len(frame)) + frame


VIOLATIONS: dict[str, tuple[Callable[[], bytes], str]] = {
    "a negative length": (lambda: struct.pack(">i", -1), "a request of -1 bytes"),
    "a length of 2 GB": (lambda: struct.pack(">i", 2**31 - 1), "socket.request.max.bytes=104857600"),
    "an empty frame": (lambda: struct.pack(">i", 0), "request header cannot be read"),
    "half a header": (lambda: struct.pack(">ihh", 4, 18, 0), "request header cannot be read"),
    "a client id beyond the frame": (
        lambda: struct.pack(">ihhih", 10, 18, 0, 7, 100),
        "request header cannot be read",
    ),
    "a client id that is no text": (
        lambda: by_hand(18, 0, b"", b"\xff\xfe"),
        "request header cannot be read",
    ),
    "an unknown API": (lambda: by_hand(999, 0), "API key 999 is not served here"),
    "an unknown version": (lambda: by_hand(3, 99, b"\0"), "version 99 of Metadata is not served here"),
    "a negative version": (lambda: by_hand(0, -1), "version -1 of Produce is not served here"),
    "no body": (lambda: by_hand(3, 1), r"a Metadata request \(version 1\) is malformed"),
    "an array of 2^31-1": (lambda: by_hand(3, 1, b"\x7f\xff\xff\xff"), "a Metadata request"),
    "tags that are cut off": (lambda: by_hand(3, 12, b""), "request header cannot be read"),
}


@pytest.mark.parametrize(("make", "said"), VIOLATIONS.values(), ids=VIOLATIONS)
async def test_next_step_raises_protocol_violation_on_invalid_requests(
    broker: Broker, make: Callable[[], bytes], said: str
) -> None:
    """What was asked before is answered before."""
    client = Client(broker)
    client.receive(framed(API_VERSIONS, 0, ApiVersionsRequest(), 1) + make() + b"whatever follows")
    step = client.wire.next_step()
    assert isinstance(step, list)
    assert answer_in(API_VERSIONS, 0, joined(step), 1).error_code == 0
    with pytest.raises(ProtocolViolation, match=said):
        client.wire.next_step()


@pytest.mark.parametrize(("api", "version", "request_"), SESSION)
async def test_next_step_raises_protocol_violation_on_a_truncated_request_body(
    broker: Broker, api: Any, version: int, request_: object
) -> None:
    whole = framed(api, version, request_)
    body_at = 4 + 10 + len("tests")
    for end in range(body_at, len(whole)):
        client = Client(broker)
        client.receive(struct.pack(">i", end - 4) + whole[4:end])
        with pytest.raises(ProtocolViolation):
            client.wire.next_step()
    assert broker.topics.get("flights").partitions[0].log.log_end_offset == 0


async def test_next_step_ignores_bytes_behind_a_request(broker: Broker) -> None:
    """Kafka does not mind them, and neither does the next request."""
    client = Client(broker)
    client.receive(by_hand(18, 0, b"trailing bytes") + by_hand(18, 0))
    for _ in range(2):
        step = client.wire.next_step()
        assert isinstance(step, list)
        assert answer_in(API_VERSIONS, 0, joined(step)).error_code == 0


@pytest.mark.parametrize("client_id", [None, b"", b"a" * 1000, "\u00e4\u4e2d".encode()])
async def test_next_step_accepts_any_client_id(broker: Broker, client_id: bytes | None) -> None:
    client = Client(broker)
    client.receive(by_hand(18, 0, b"", client_id))
    step = client.wire.next_step()
    assert isinstance(step, list)
    assert answer_in(API_VERSIONS, 0, joined(step)).error_code == 0


async def test_next_step_skips_unknown_tagged_fields(broker: Broker) -> None:
    client = Client(broker)
    tags = b"\x01\x63\x02hi"
    # the header's tags, all topics, no creation, no operations, the body's tags
    client.receive(by_hand(3, 12, tags + b"\0" + b"\0\0" + tags))
    step = client.wire.next_step()
    assert step is not None
    assert [topic.name for topic in (await client.finish(METADATA, 12, step)).topics] == ["flights"]


async def test_kafka_connection_release_memory_shrinks_the_receive_buffer(broker: Broker) -> None:
    client = Client(broker)
    await client.ask(PRODUCE, 9, produce(-1, 30_000))
    assert len(client.wire.receive_buffer()) > 200_000
    client.wire.release_memory()
    assert len(client.wire.receive_buffer()) == 4096
    await client.ask(PRODUCE, 9, produce(-1))
