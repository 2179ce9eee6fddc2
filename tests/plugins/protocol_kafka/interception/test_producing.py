"""Produce through interceptors: refused, rewritten and routed batches, and what stays right in the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator

import attrs
import pytest
import trio

from tests.plugins.protocol_kafka.apis.client import PEER, Client
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tests.plugins.protocol_kafka.interception.produced import (
    NAMES_UNTIL,
    TOPIC,
    request,
    send,
    stored,
    values,
)
from tests.plugins.protocol_kafka.interception.scripted import intercepting_broker
from tidelog.kernel.errors import InvalidRecord, PolicyViolation
from tidelog.kernel.records.batch import (
    HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    pack_batch,
    parse_header,
)
from tidelog.kernel.records.compression import codec_named, compress
from tidelog.kernel.records.message_set import Message, encode_message
from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.interceptors import BatchInfo, Interceptor, RefusedRecord, RunsIn
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
)

OTHER = "dead-letters"


def compressed(batch: bytearray, codec: str) -> bytearray:
    """The batch with its records compressed."""
    found = codec_named(codec)
    assert found is not None
    header = parse_header(batch)
    packed = compress(found.id, batch[HEADER_BYTES:])
    return pack_batch(header._replace(attributes=header.attributes | found.id), packed)


class Shouting(Interceptor):
    """Makes values upper case, on the loop."""

    runs_in = RunsIn.LOOP

    def __init__(self) -> None:
        self.threads: list[str] = []

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        self.threads.append(threading.current_thread().name)
        for record in records:
            yield attrs.evolve(record, value=(record.value or b"").upper())


class ShoutingInThread(Shouting):
    runs_in = RunsIn.THREAD


class Listening(Interceptor):
    """Notes what is appended."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int, AppendResult]] = []

    def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
        self.heard.append((batch.topic, batch.partition, result))


class Routing(Interceptor):
    """Sends large batches elsewhere."""

    def before_append(self, batch: BatchInfo) -> str | None:
        return OTHER if batch.size_bytes > 200 else None


class Refusing(Interceptor):
    """Refuses batches by their header."""

    def __init__(self) -> None:
        self.asked: list[BatchInfo] = []

    def before_append(self, batch: BatchInfo) -> None:
        self.asked.append(batch)
        if batch.header.record_count > 1:
            raise PolicyViolation("one record at a time")


class Picky(Interceptor):
    """Refuses records without digits."""

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        return (each if (each.value or b"").isdigit() else RefusedRecord("no number") for each in records)


@pytest.mark.parametrize("version", [3, 7, 12])
async def test_before_append_refuses_by_the_header_and_its_text_reaches_the_client(version: int) -> None:
    refusing = Refusing()
    async with intercepting_broker(it=refusing) as broker:
        await new_topic(broker)
        assert (await send(broker, make_batch([b"one"]), version=version)).error_code == 0
        answer = await send(broker, make_batch([b"one", b"two"]), version=version)
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        assert answer.base_offset == -1
        assert values(broker) == [b"one"]
    info = refusing.asked[0]
    assert (info.topic, info.partition, info.header.record_count) == (TOPIC, 0, 1)
    assert (info.listener, info.host, info.client_id) == ("PLAINTEXT", "127.0.0.1", "tests")
    if version >= 8:
        assert answer.error_message == "one record at a time"


async def test_rewrite_refuses_records_and_names_each_of_them() -> None:
    async with intercepting_broker(it=Picky()) as broker:
        await new_topic(broker)
        answer = await send(broker, make_batch([b"1", b"x", b"3", b"y"]))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [each.batch_index for each in answer.record_errors] == [1, 3]
        assert answer.error_message == "record 1: no number, and 1 more records are refused"
        assert values(broker) == []


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("interceptor", [Shouting, ShoutingInThread])
async def test_rewrite_replaces_records_and_keeps_codec_and_offsets(
    codec: str, interceptor: type[Shouting]
) -> None:
    shouting = interceptor()
    batch = make_batch(
        [b"a", b"b", b"c"], keys=[b"k", None, b"l"], timestamps=[START_MS, START_MS + 5, START_MS]
    )
    sent = batch if codec == "none" else compressed(batch, codec)
    async with intercepting_broker(it=shouting) as broker:
        await new_topic(broker)
        assert (await send(broker, make_batch([b"first"]))).error_code == 0
        assert (await send(broker, sent)).base_offset == 1
        _, (header, records) = stored(broker)
        assert header.attributes == parse_header(sent).attributes
        assert (header.base_offset, header.last_offset_delta, header.max_timestamp) == (1, 2, START_MS + 5)
        assert [(each.offset, each.key, each.value) for each in records] == [
            (1, b"k", b"A"),
            (2, None, b"B"),
            (3, b"l", b"C"),
        ]
    in_thread = interceptor is ShoutingInThread or codec != "none"
    assert (shouting.threads[-1] != threading.main_thread().name) == in_thread


async def test_a_batch_of_which_each_record_stays_is_appended_as_it_was_sent() -> None:
    class Looking(Interceptor):
        def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
            return records

    sent = compressed(make_batch([b"a" * 100]), "zstd")
    async with intercepting_broker(it=Looking()) as broker:
        await new_topic(broker)
        await send(broker, sent)
        log = broker.topics.get(TOPIC).partitions[0].log
        (region,) = log.store.read_batches(0, 10**6, 1).regions
        assert bytes(region)[HEADER_BYTES:] == sent[HEADER_BYTES:]  # type: ignore[arg-type]


async def test_bytes_of_records_that_stay_are_copied_though_their_header_keys_are_no_text() -> None:
    class First(Interceptor):
        def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
            for record in records:
                yield attrs.evolve(record, value=b"changed") if record.offset == 0 else record

    plain = make_batch([b"a", b"b"])
    header = parse_header(plain)
    # A record with one header, whose key is no UTF-8.
    odd = bytes([0, 0, 2, 1, 2, ord("b"), 2, 4, 0xFF, 0xFE, 2, ord("v")])
    area = plain[HEADER_BYTES : HEADER_BYTES + 8] + bytes([len(odd) * 2]) + odd
    sent = pack_batch(header, area)
    async with intercepting_broker(it=First()) as broker:
        await new_topic(broker)
        assert (await send(broker, sent)).error_code == 0
        log = broker.topics.get(TOPIC).partitions[0].log
        (region,) = log.store.read_batches(0, 10**6, 2).regions
        assert bytes(region).endswith(odd)  # type: ignore[arg-type]
        assert values(broker) == [b"changed", b"b"]


async def test_sequences_of_an_idempotent_producer_stay_when_its_batches_are_rewritten() -> None:
    def batch(sequence: int) -> bytearray:
        return make_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=sequence)

    shouting = Shouting()
    async with intercepting_broker(it=shouting) as broker:
        await new_topic(broker)
        offsets = [(await send(broker, batch(sequence))).base_offset for sequence in (0, 2, 0, 2, 4)]
        # The third and the fourth are retries: they get their offsets, and are not asked for again.
        assert offsets == [0, 2, 0, 2, 4]
        assert len(shouting.threads) == 3
        assert (await send(broker, batch(9))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert values(broker) == [b"A", b"B"] * 3


async def test_a_retry_is_answered_though_it_would_be_refused_now() -> None:
    class Once(Interceptor):
        def __init__(self) -> None:
            self.closed = False

        def before_append(self, batch: BatchInfo) -> None:
            if self.closed:
                raise PolicyViolation("closed")

    once = Once()
    batch = make_batch([b"a"], producer_id=7, producer_epoch=0, base_sequence=0)
    async with intercepting_broker(it=once) as broker:
        await new_topic(broker)
        assert (await send(broker, batch)).base_offset == 0
        once.closed = True
        assert (await send(broker, batch)).base_offset == 0
        following = make_batch([b"a"], producer_id=7, producer_epoch=0, base_sequence=1)
        assert (await send(broker, following)).error_code == ErrorCode.POLICY_VIOLATION


async def test_routed_batches_are_in_the_other_topic_and_leave_their_sequence_behind() -> None:
    def batch(sequence: int, size: int) -> bytearray:
        return make_batch([b"v" * size] * 2, producer_id=7, producer_epoch=0, base_sequence=sequence)

    async with intercepting_broker(it=Routing()) as broker:
        await new_topic(broker, TOPIC)
        await new_topic(broker, OTHER)
        answers = [await send(broker, batch(*each)) for each in ((0, 1), (2, 200), (4, 1), (2, 200))]
        assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 2), (0, 4), (0, 2)]
        assert values(broker) == [b"v"] * 4
        # Once, though it was sent twice.
        assert values(broker, OTHER) == [b"v" * 200] * 2
        assert [(header.base_offset, header.record_count) for header, _ in stored(broker)] == [
            (0, 2),
            (2, 0),
            (4, 2),
        ]
        assert stored(broker, OTHER)[0][0].producer_id == -1


async def test_a_routed_batch_goes_to_the_partition_of_its_number_and_without_a_producer_leaves_nothing() -> (
    None
):
    async with intercepting_broker(it=Routing()) as broker:
        await new_topic(broker, TOPIC, partitions=4)
        await new_topic(broker, OTHER, partitions=3)
        client = Client(broker)
        batches = [bytes(make_batch([b"%d" % index * 300])) for index in range(4)]
        response = await client.ask(PRODUCE, NAMES_UNTIL, request({TOPIC: batches}))
        assert [each.error_code for each in response.responses[0].partition_responses] == [0] * 4
        assert [len(stored(broker, OTHER, index)) for index in range(3)] == [2, 1, 1]
        assert stored(broker) == []


@pytest.mark.parametrize(
    ("route", "code"),
    [
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_a_batch_cannot_be_routed_to_the_brokers_own_or_a_missing_topic(route: str, code: int) -> None:
    class Wrong(Interceptor):
        def before_append(self, batch: BatchInfo) -> str:
            return route

    async with intercepting_broker(it=Wrong()) as broker:
        await new_topic(broker)
        await broker.topics.ensure("__consumer_offsets")
        assert (await send(broker, make_batch())).error_code == code


async def test_a_batch_of_a_transaction_is_not_routed() -> None:
    batch = make_batch([b"v" * 300], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    async with intercepting_broker(it=Routing()) as broker:
        await new_topic(broker, TOPIC)
        await new_topic(broker, OTHER)
        answer = await send(broker, batch)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "transaction" in (answer.error_message or "")
        assert values(broker, OTHER) == []


async def test_after_append_hears_of_each_batch_with_its_offsets() -> None:
    listening = Listening()
    async with intercepting_broker(it=listening) as broker:
        await new_topic(broker, TOPIC, partitions=2)
        client = Client(broker)
        await client.ask(PRODUCE, NAMES_UNTIL, request({TOPIC: [make_batch([b"a"] * 3), make_batch()]}))
        await send(broker, make_batch([b"b"]))
        assert [(*each[:2], each[2].base_offset, each[2].last_offset) for each in listening.heard] == [
            (TOPIC, 0, 0, 2),
            (TOPIC, 1, 0, 0),
            (TOPIC, 0, 3, 3),
        ]


async def test_requests_without_a_response_are_intercepted_and_a_refusal_closes_the_connection() -> None:
    listening = Listening()
    async with intercepting_broker(refusing=Refusing(), listening=listening) as broker:
        await new_topic(broker)
        client = Client(broker)
        step = client.start(PRODUCE, NAMES_UNTIL, request({TOPIC: [make_batch()]}, acks=0))
        assert not isinstance(step, list)
        assert await step == []
        assert len(listening.heard) == 1
        step = client.start(PRODUCE, NAMES_UNTIL, request({TOPIC: [make_batch([b"a", b"b"])]}, acks=0))
        assert not isinstance(step, list)
        with pytest.raises(ProtocolViolation, match="one record at a time"):
            await step


async def test_old_message_sets_are_batches_for_interceptors() -> None:
    messages = bytearray()
    for index in range(3):
        encode_message(messages, Message(index, START_MS, b"k", b"v%d" % index), 1)
    for settings in ({}, {"log.message.timestamp.type": "LogAppendTime"}):
        async with intercepting_broker(settings, it=Shouting()) as broker:
            await new_topic(broker)
            assert (await send(broker, messages, version=2)).error_code == 0
            ((header, records),) = stored(broker)
            assert [each.value for each in records] == [b"V0", b"V1", b"V2"]
            assert bool(header.attributes & TIMESTAMP_TYPE_BIT) == bool(settings)


async def test_what_the_log_refuses_is_refused_with_its_error() -> None:
    damaged = make_batch([b"value"])
    damaged[-1] ^= 1
    two = make_batch() + make_batch()
    async with intercepting_broker(it=Shouting()) as broker:
        await new_topic(broker)
        assert (await send(broker, damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
        assert (await send(broker, two)).error_code == ErrorCode.INVALID_RECORD
        assert (await send(broker, b"\0" * 20)).error_code == ErrorCode.INVALID_RECORD
        assert (
            await send(broker, make_batch([b"v"] * 3, last_offset_delta=7))
        ).error_code == ErrorCode.INVALID_RECORD


async def test_only_topics_and_listeners_that_are_named_are_intercepted() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT",
        "interceptors.it.topics.regex": "fli.*",
        "interceptors.it.listeners": "PLAINTEXT",
    }
    async with intercepting_broker(settings, it=Shouting()) as broker:
        await new_topic(broker)
        await new_topic(broker, "a-flight")
        await send(broker, make_batch([b"a"]))
        await send(broker, make_batch([b"a"]), topic="a-flight")
        elsewhere = Client(broker, peer=PEER._replace(listener_name="OTHER"))
        await elsewhere.ask(PRODUCE, NAMES_UNTIL, request({TOPIC: [make_batch([b"b"])]}))
        assert values(broker) == [b"A", b"b"]
        assert values(broker, "a-flight") == [b"a"]


class Raising(Interceptor):
    """Fails in the middle of a batch."""

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        for number, record in enumerate(records):
            if number:
                raise ZeroDivisionError("by accident")
            yield attrs.evolve(record, value=b"other")


class Forgetting(Interceptor):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        return [next(records)]


class Inventing(Interceptor):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        for record in records:
            yield record
            yield record


class LookingAhead(Interceptor):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        return list(records)


class Moving(Interceptor):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        return (attrs.evolve(record, offset=record.offset + 1) for record in records)


class Hiding(Interceptor):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        return (None for _ in records)  # type: ignore[misc]


class Failing(Interceptor):
    def before_append(self, batch: BatchInfo) -> str | None:
        raise KeyError("none")


@pytest.mark.parametrize("rule", ["fail", "pass"])
@pytest.mark.parametrize("kind", [Raising, Forgetting, Inventing, LookingAhead, Moving, Hiding, Failing])
async def test_a_failure_is_named_in_the_log_and_refused_or_passed_over(
    kind: type[Interceptor], rule: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with intercepting_broker({"interceptors.it.on.failure": rule}, it=kind()) as broker:
        await new_topic(broker)
        answers = [await send(broker, make_batch([b"a", b"b"])) for _ in range(3)]
        passed = rule == "pass"
        assert {each.error_code for each in answers} == {0 if passed else ErrorCode.UNKNOWN_SERVER_ERROR}
        assert values(broker) == [b"a", b"b"] * 3 * passed
    lines = [
        each
        for each in caplog.records
        if "the interceptor it " in each.message and each.levelno == logging.ERROR
    ]
    # Three failures within a second have one line.
    assert len(lines) == 1
    assert lines[0].exc_info is not None
    assert "flights-0" in lines[0].message


class Stuck(Interceptor):
    """Takes longer than it may: between records, or within one."""

    def __init__(self, *, within: bool) -> None:
        self.within = within
        self.released = threading.Event()

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record]:
        for record in records:
            while not self.released.wait(0.02):
                if not self.within:
                    break
            yield record


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("rule", ["fail", "pass"])
async def test_a_slow_interceptor_is_ended_and_the_loop_goes_on(rule: str, within: bool) -> None:
    stuck = Stuck(within=within)
    settings = {"interceptors.it.on.failure": rule, "interceptors.it.timeout.ms": 10}
    async with intercepting_broker(settings, it=stuck) as broker:
        await new_topic(broker)
        answers: list[PartitionProduceResponse] = []
        try:
            async with trio.open_nursery() as nursery:
                for _ in range(6):

                    async def one() -> None:
                        answers.append(await send(broker, make_batch([b"a"] * 20)))

                    nursery.start_soon(one)
        finally:
            stuck.released.set()
        expected = 0 if rule == "pass" else ErrorCode.REQUEST_TIMED_OUT
        assert [each.error_code for each in answers] == [expected] * 6


async def test_an_error_of_after_append_is_logged_and_the_batch_is_acknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Deaf(Interceptor):
        def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
            raise InvalidRecord("too late")

    async with intercepting_broker(it=Deaf()) as broker:
        await new_topic(broker)
        assert (await send(broker, make_batch())).error_code == 0
    assert "the interceptor it failed with InvalidRecord: too late in after_append" in caplog.text
