"""Produce: appended batches and every refusal, by name and by id, with and without an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import pytest
import trio

from tidelog.kernel import pace
from tidelog.kernel.broker import Broker
from tidelog.kernel.log import Isolation, record_checks, validation
from tidelog.kernel.records import checking
from tidelog.kernel.records.batch import HEADER_BYTES, Buffer, pack_batch, parse_header
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.message_set import encode_message
from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.apis.produce import (
    APPENDS_A_TURN,
    APPENDS_AT_ONCE,
    MAX_RECORD_ERRORS,
)
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

from .client import Client, answer_in, framed, joined, versions_of
from .topics import new_topic

IDS_SINCE = 13


def for_partitions(topic: Topic, batches: Mapping[int, Buffer | None], acks: int = -1) -> ProduceRequest:
    """Batches for partitions of one topic."""
    data = [
        PartitionProduceData(index=index, records=None if batch is None else memoryview(batch))
        for index, batch in batches.items()
    ]
    named = TopicProduceData(name=topic.name, topic_id=topic.topic_id.bytes, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named])


def one(response: Any) -> PartitionProduceResponse:
    """The answer for the only partition."""
    ((partition,),) = [topic.partition_responses for topic in response.responses]
    assert isinstance(partition, PartitionProduceResponse)
    return partition


def packed(batch: bytearray, codec: int) -> bytearray:
    """The batch, compressed."""
    header = parse_header(batch)
    return pack_batch(header._replace(attributes=codec), compress(codec, batch[HEADER_BYTES:]))


@pytest.mark.parametrize("version", versions_of(PRODUCE))
@pytest.mark.parametrize("acks", [-1, 1])
async def test_produce_appends_in_every_version(
    client: Client, broker: Broker, version: int, acks: int
) -> None:
    topic = await new_topic(broker)
    for base in (0, 3, 6):
        request = for_partitions(topic, {0: make_batch([b"value"] * 3)}, acks)
        response = await client.ask(PRODUCE, version, request)
        answer = one(response)
        assert (answer.index, answer.error_code, answer.base_offset) == (0, 0, base)
        assert answer.log_append_time_ms == -1
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        if version >= IDS_SINCE:
            assert response.responses[0].topic_id == topic.topic_id.bytes
        else:
            assert response.responses[0].name == "flights"
    assert topic.partitions[0].log.log_end_offset == 9


@pytest.mark.parametrize("version", versions_of(PRODUCE))
async def test_produce_with_acks_0_has_no_response(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    assert client.start(PRODUCE, version, for_partitions(topic, {0: make_batch()}, acks=0)) == []
    assert topic.partitions[0].log.log_end_offset == 1


async def test_the_first_batch_is_appended_at_once_however_late_it_is(
    client: Client, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await new_topic(broker, partitions=2)
    monkeypatch.setattr(pace, "STEP_SECONDS", 0.0)
    step = client.start(PRODUCE, 11, for_partitions(topic, dict.fromkeys((0, 1), make_batch())))
    assert [each.log.log_end_offset for each in topic.partitions] == [1, 0]
    response = await client.finish(PRODUCE, 11, step)
    assert [each.error_code for each in response.responses[0].partition_responses] == [0, 0]
    assert [each.log.log_end_offset for each in topic.partitions] == [1, 1]


@pytest.mark.parametrize("version", versions_of(PRODUCE))
async def test_produce_with_acks_0_closes_the_connection_after_an_error(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    with pytest.raises(ProtocolViolation, match=r"acks=0 failed for (flights|[0-9a-f]{32})-7"):
        client.start(PRODUCE, version, for_partitions(topic, {7: make_batch()}, acks=0))


@pytest.mark.parametrize("version", versions_of(PRODUCE))
async def test_produce_to_unknown_partitions(client: Client, broker: Broker, version: int) -> None:
    topic = await new_topic(broker)
    await broker.topics.delete("flights")
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: make_batch()})))
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= IDS_SINCE else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.error_code, answer.base_offset) == (unknown, -1)
    topic = await new_topic(broker, partitions=2)
    for index in (2, -1):
        answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {index: make_batch()})))
        assert (answer.index, answer.error_code) == (index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("version", versions_of(PRODUCE))
@pytest.mark.parametrize("acks", [2, -2, 2**15 - 1])
async def test_produce_refuses_unknown_acks(client: Client, broker: Broker, version: int, acks: int) -> None:
    topic = await new_topic(broker)
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: make_batch()}, acks)))
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert topic.partitions[0].log.log_end_offset == 0


async def test_produce_reports_errors_by_partition(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=4)
    broken = make_batch()
    broken[-1] ^= 1
    batches = {0: make_batch([b"v"] * 2), 1: broken, 9: make_batch(), 3: make_batch()}
    response = await client.ask(PRODUCE, 8, for_partitions(topic, batches))
    answers = {answer.index: answer for answer in response.responses[0].partition_responses}
    assert {index: answer.error_code for index, answer in answers.items()} == {
        0: ErrorCode.NONE,
        1: ErrorCode.CORRUPT_MESSAGE,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        3: ErrorCode.NONE,
    }
    assert "CRC-32C" in (answers[1].error_message or "")
    assert answers[0].error_message is None
    assert [partition.log.log_end_offset for partition in topic.partitions] == [2, 0, 0, 1]


def old_message(magic: int) -> bytearray:
    """A message set of one message."""
    out = bytearray()
    encode_message(out, Record(0, 1000, None, b"value" * 20), magic)
    return out


def other_magic() -> bytearray:
    """A batch of a format to come."""
    batch = make_batch()
    batch[16] = 3
    return batch


REFUSED: dict[str, tuple[Callable[[], Buffer | None], int, ErrorCode]] = {
    "null": (lambda: None, 8, ErrorCode.INVALID_RECORD),
    "nothing": (lambda: b"", 8, ErrorCode.INVALID_RECORD),
    "half a batch": (lambda: make_batch()[:30], 8, ErrorCode.INVALID_RECORD),
    "two batches": (lambda: make_batch() * 2, 8, ErrorCode.INVALID_RECORD),
    "format 0 in a new version": (lambda: old_message(0), 8, ErrorCode.INVALID_RECORD),
    "format 1 in a new version": (lambda: old_message(1), 8, ErrorCode.INVALID_RECORD),
    "null in an old version": (lambda: None, 2, ErrorCode.INVALID_RECORD),
    "zeros": (lambda: bytes(12), 2, ErrorCode.CORRUPT_MESSAGE),
    "two formats": (lambda: old_message(0) + old_message(1), 2, ErrorCode.INVALID_RECORD),
    "a flipped bit in a message": (lambda: old_message(1)[:-1] + b"X", 2, ErrorCode.CORRUPT_MESSAGE),
    "format 3": (other_magic, 8, ErrorCode.CORRUPT_MESSAGE),
    "zstd before its version": (lambda: packed(make_batch(), 4), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "an unknown codec": (
        lambda: pack_batch(parse_header(make_batch())._replace(attributes=5), b"x" * 20),
        8,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    "too large": (lambda: make_batch([b"x" * 1_048_588]), 8, ErrorCode.MESSAGE_TOO_LARGE),
    "from the future": (lambda: make_batch(timestamps=10**15), 8, ErrorCode.INVALID_TIMESTAMP),
    "a control batch": (lambda: make_batch(control=True), 8, ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize(("make", "version", "code"), REFUSED.values(), ids=REFUSED)
async def test_produce_refuses_invalid_batches(
    client: Client, broker: Broker, make: Callable[[], Buffer | None], version: int, code: ErrorCode
) -> None:
    topic = await new_topic(broker)
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: make()})))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert topic.partitions[0].log.log_end_offset == 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_produce_of_a_set_without_a_whole_message_is_no_error(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    for records in (b"", b"x", old_message(1)[:-1], make_batch()[:40]):
        answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: records})))
        assert (answer.error_code, answer.base_offset) == (0, -1)
    assert topic.partitions[0].log.log_end_offset == 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_produce_ignores_a_cut_message_behind_others(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await new_topic(broker)
    records = old_message(1) + old_message(1)[:-1]
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: records})))
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert topic.partitions[0].log.log_end_offset == 1


@pytest.mark.parametrize(("codec", "version"), [(1, 3), (2, 3), (3, 3), (4, 7), (4, 13), (0, 3)])
async def test_produce_appends_compressed_batches_unchanged(
    client: Client, broker: Broker, codec: int, version: int
) -> None:
    topic = await new_topic(broker)
    batch = packed(make_batch([b"value"] * 100), codec)
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: batch})))
    assert answer.error_code == 0
    (region,) = topic.partitions[0].log.read(0, 10_000, Isolation.READ_UNCOMMITTED).regions
    assert isinstance(region, bytes | memoryview)
    assert bytes(region[HEADER_BYTES:]) == batch[HEADER_BYTES:]


@pytest.mark.parametrize("version", versions_of(PRODUCE))
async def test_produce_returns_the_log_append_time(
    client: Client, broker: Broker, clock: FakeClock, version: int
) -> None:
    topic = await new_topic(broker, config={"message.timestamp.type": "LogAppendTime"})
    answer = one(await client.ask(PRODUCE, version, for_partitions(topic, {0: make_batch(timestamps=5)})))
    assert answer.error_code == 0
    assert answer.log_append_time_ms == (clock.now_ms if version >= 2 else -1)


def idempotent(sequence: int, epoch: int = 0) -> bytearray:
    """A batch of producer 5."""
    return make_batch(producer_id=5, producer_epoch=epoch, base_sequence=sequence)


async def test_produce_of_an_idempotent_producer(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    outcomes: list[tuple[int, int]] = []
    for sequence, epoch in ((0, 0), (1, 0), (0, 0), (1, 0), (3, 0), (0, 1), (2, 0), (2, 1)):
        request = for_partitions(topic, {0: idempotent(sequence, epoch)})
        answer = one(await client.ask(PRODUCE, 9, request))
        outcomes.append((answer.error_code, answer.base_offset))
    gap, fenced = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH
    assert outcomes == [(0, 0), (0, 1), (0, 0), (0, 1), (gap, -1), (0, 2), (fenced, -1), (gap, -1)]


async def test_produce_without_topics(client: Client) -> None:
    response = await client.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]))
    assert response.responses == []


async def test_produce_of_many_topics_in_one_request(client: Client, broker: Broker) -> None:
    first, second = await new_topic(broker, "first"), await new_topic(broker, "second")
    request = for_partitions(first, {0: make_batch()})
    request.topic_data.extend(for_partitions(second, {0: make_batch([b"v"] * 2)}).topic_data)
    response = await client.ask(PRODUCE, 12, request)
    assert [topic.name for topic in response.responses] == ["first", "second"]
    assert [first.partitions[0].log.log_end_offset, second.partitions[0].log.log_end_offset] == [1, 2]


@pytest.fixture(autouse=True)
def short_first_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only batches of a hundred records are checked at once."""
    monkeypatch.setattr(record_checks, "FIRST_TURN_SECONDS", 0)
    monkeypatch.setattr(checking, "RECORDS_PER_STEP", 100)
    monkeypatch.setattr(validation, "AT_ONCE_RECORDS", 100)


def many_records(codec: int, sequence: int, count: int = 500) -> bytearray:
    """A batch of an idempotent producer whose records are too many to be checked on the event loop."""
    plain = make_batch([b"v" * 50] * count, producer_id=5, producer_epoch=0, base_sequence=sequence)
    header = parse_header(plain)._replace(attributes=codec)
    return pack_batch(header, compress(codec, plain[HEADER_BYTES:]))


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
async def test_produce_keeps_the_order_of_large_compressed_batches(
    client: Client, broker: Broker, codec: int
) -> None:
    topic = await new_topic(broker, partitions=2)
    batches = [many_records(codec, 500 * index) for index in range(4)]
    small = make_batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=2000)
    for batch in [*batches, small]:
        client.receive(framed(PRODUCE, 9, for_partitions(topic, {0: batch, 1: make_batch([b"y"])})))
    ends: list[int] = []
    while (step := client.wire.next_step()) is not None:
        answer = answer_in(PRODUCE, 9, joined(step if isinstance(step, list) else await step))
        ((first, second),) = [told.partition_responses for told in answer.responses]
        assert (first.error_code, second.error_code) == (0, 0)
        ends.append(first.base_offset)
    assert ends == [0, 500, 1000, 1500, 2000]
    assert topic.partitions[1].log.log_end_offset == 5


async def test_produce_keeps_the_order_of_a_duplicate_partition(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker)
    data = [
        PartitionProduceData(index=0, records=memoryview(batch))
        for batch in (
            many_records(4, 0),
            make_batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=500),
        )
    ]
    named = TopicProduceData(name=topic.name, topic_id=topic.topic_id.bytes, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[named])
    answer = await client.ask(PRODUCE, 9, request)
    ((first, second),) = [told.partition_responses for told in answer.responses]
    assert [(told.error_code, told.base_offset) for told in (first, second)] == [(0, 0), (0, 500)]


async def test_produce_of_a_large_request_does_not_block_other_clients(
    client: Client, broker: Broker
) -> None:
    count = APPENDS_AT_ONCE + 5 * APPENDS_A_TURN
    topic = await new_topic(broker, partitions=count)
    turns: list[int] = []

    async def others() -> None:
        while True:
            turns.append(sum(partition.log.log_end_offset for partition in topic.partitions))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        await client.ask(PRODUCE, 9, for_partitions(topic, dict.fromkeys(range(count), make_batch())))
        nursery.cancel_scope.cancel()
    assert [partition.log.log_end_offset for partition in topic.partitions] == [1] * count
    steps = [after - before for before, after in pairwise(turns)]
    # The order in which tasks take their turn is random.
    assert max(steps[1:]) <= 2 * APPENDS_A_TURN


async def test_produce_names_invalid_records_up_to_a_limit(client: Client, broker: Broker) -> None:
    topic = await new_topic(broker, partitions=12, config={"cleanup.policy": "compact"})
    keyless = make_batch([b"v"] * 2000)
    batches = {0: make_batch([b"v"] * 3, keys=[b"k", None, None]), **dict.fromkeys(range(1, 12), keyless)}
    response = await client.ask(PRODUCE, 8, for_partitions(topic, batches))
    (answers,) = [told.partition_responses for told in response.responses]
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_RECORD}
    assert [error.batch_index for error in answers[0].record_errors] == [1, 2]
    named = [len(answer.record_errors) for answer in answers]
    assert named == [2, *[1000] * 9, MAX_RECORD_ERRORS - 9002, 0]
    old = one(await client.ask(PRODUCE, 7, for_partitions(topic, {0: keyless})))
    assert (old.error_code, old.record_errors) == (ErrorCode.INVALID_RECORD, [])


async def test_produce_refuses_a_large_compressed_batch_with_invalid_records(
    client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    good = many_records(4, 0)
    header = parse_header(good)
    bad = pack_batch(header._replace(record_count=501, last_offset_delta=500), good[HEADER_BYTES:])
    told = one(await client.ask(PRODUCE, 9, for_partitions(topic, {0: bad})))
    assert (told.error_code, told.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert "501 are counted" in (told.error_message or "")
    assert topic.partitions[0].log.log_end_offset == 0


async def test_produce_with_acks_0_is_appended_after_the_client_has_disconnected(
    client: Client, broker: Broker
) -> None:
    topic = await new_topic(broker)
    step = client.start(PRODUCE, 9, for_partitions(topic, {0: many_records(4, 0)}, acks=0))
    assert not isinstance(step, list)
    with trio.CancelScope() as left:
        left.cancel()
        await step
    assert topic.partitions[0].log.log_end_offset == 500


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
async def test_produce_refuses_internal_topics(client: Client, broker: Broker, name: str) -> None:
    topic = await broker.topics.ensure(name)
    assert len(topic.partitions) == 50
    answer = one(await client.ask(PRODUCE, 9, for_partitions(topic, {0: make_batch()})))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert topic.partitions[0].log.log_end_offset == 0
