"""Offsets, producing and fetching: leaders are found again, nothing is appended twice by accident."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from tests.plugins.client.fakes import (
    ADDRESS,
    ALL_VERSIONS,
    NOW_MS,
    FakeBroker,
    MemoryDriver,
    metadata_message,
)
from tests.tables import for_each
from tidelog.kernel.records import parse_header, stamp_offset
from tidelog.plugins.client import (
    FetchLimits,
    FetchSessions,
    FoundOffset,
    IdempotentProducer,
    NewRecord,
    PartitionReader,
    Produced,
    TopicPartition,
    TransactionalProducer,
    or_raise,
)
from tidelog.plugins.client.batches import build_batch, encode_batch
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import (
    BrokerClosed,
    BrokerUnreachable,
    ClientError,
    ErrorResponse,
    ProducerInDoubt,
)
from tidelog.plugins.client.operations.all_operations import (
    close_fetch_sessions,
    fetch,
    fetch_partitions,
    init_producer,
    list_offsets,
    produce,
    produce_batches,
)
from tidelog.plugins.client.producers import ProducerTransactionState
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchAbortedTransaction,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdResponse
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

OTHER = Address("broker-2", 9092)
BOTH = {1: ADDRESS, 2: OTHER}
PARTITION, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
TOPIC_ID = bytes(range(16))
RECORDS = [NewRecord(b"one"), NewRecord(b"two")]
CLOSED = BrokerClosed("broker-1:9092", "Produce v13", "the broker closed it")
UNREACHABLE = BrokerUnreachable([(ADDRESS, "connection refused")])


def driver(**answers: Any) -> MemoryDriver:
    return MemoryDriver({ADDRESS: FakeBroker({"Metadata": metadata_message({"orders": [1]}), **answers})})


def two_brokers(
    first: dict[str, Any], second: dict[str, Any], *leaders: int
) -> tuple[MemoryDriver, FakeBroker, FakeBroker]:
    """Two brokers; the first tells that partition 0 is led by one of `leaders` after the other."""
    told = [metadata_message({"orders": [leader]}, brokers=BOTH) for leader in leaders]
    brokers = FakeBroker({"Metadata": told, **first}), FakeBroker({"Metadata": told, **second})
    return MemoryDriver({ADDRESS: brokers[0], OTHER: brokers[1]}), *brokers


def produced(
    code: int = 0, base_offset: int = 7, message: str | None = None, index: int = 0
) -> ProduceResponse:
    part = PartitionProduceResponse(
        index=index, error_code=code, base_offset=base_offset, log_start_offset=2, error_message=message
    )
    return ProduceResponse(
        responses=[TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=[part])]
    )


def fetched(
    data: bytes = b"",
    code: int = 0,
    high_watermark: int = 4,
    stable: int = 4,
    aborted: list[FetchAbortedTransaction] | None = None,
    index: int = 0,
) -> FetchResponse:
    part = PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=high_watermark,
        last_stable_offset=stable,
        log_start_offset=0,
        aborted_transactions=aborted,
        records=data,
    )
    return FetchResponse(
        responses=[FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=[part])]
    )


def in_session(response: FetchResponse) -> FetchResponse:
    """The response within a fetch session."""
    response.session_id = 9
    return response


def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Partition n ends at 100 + n."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=0,
                        offset=100 + part.partition_index,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def found_at(offset: int, code: int = 0) -> ListOffsetsResponse:
    """Partition 0 has this offset for every timestamp."""
    part = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[part])])


def not_leader(request: ListOffsetsRequest) -> ListOffsetsResponse:
    answer = offsets(request)
    for topic in answer.topics:
        for part in topic.partitions:
            part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return answer


def batch_at(offset: int, count: int = 2) -> bytes:
    batch = build_batch([NewRecord(b"%d" % (offset + index)) for index in range(count)], now_ms=NOW_MS)
    stamp_offset(batch, offset, 0)
    return bytes(batch)


def asked_of(broker: FakeBroker, name: str) -> list[Any]:
    return [asked for asked in broker.asked if type(asked.message).__name__ == f"{name}Request"]


def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    told = metadata_message({"orders": [1, 2, 1], "payments": [2]}, brokers=BOTH)
    first = FakeBroker({"Metadata": told, "ListOffsets": offsets})
    second = FakeBroker({"ListOffsets": offsets})
    wanted = [*(TopicPartition("orders", index) for index in range(3)), TopicPartition("payments", 0)]
    outcomes = MemoryDriver({ADDRESS: first, OTHER: second}).run(list_offsets, wanted, EARLIEST_TIMESTAMP)
    assert [or_raise(outcomes)[each].offset for each in wanted] == [100, 101, 102, 100]
    assert len(asked_of(first, "ListOffsets")) == len(asked_of(second, "ListOffsets")) == 1
    (asked,) = asked_of(second, "ListOffsets")
    assert {part.timestamp for topic in asked.message.topics for part in topic.partitions} == {-2}


def test_after_a_change_of_leader_the_new_one_is_asked() -> None:
    memory, _, second = two_brokers({"ListOffsets": not_leader}, {"ListOffsets": offsets}, 1, 2)
    assert or_raise(memory.run(list_offsets, [PARTITION])) == {PARTITION: FoundOffset(100)}
    assert len(memory.pauses) == 1
    assert len(asked_of(second, "ListOffsets")) == 1


def test_list_offsets_returns_other_partitions_when_one_fails_for_good() -> None:
    missing = TopicPartition("orders", 5)
    outcomes = driver(ListOffsets=offsets).run(list_offsets, [PARTITION, missing])
    assert outcomes[PARTITION] == FoundOffset(100)
    assert isinstance(outcomes[missing], ErrorResponse)


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (metadata_message({"orders": [-1]}), ErrorCode.LEADER_NOT_AVAILABLE),
        (metadata_message({"orders": []}), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (
            metadata_message({}, errors={"orders": ErrorCode.TOPIC_AUTHORIZATION_FAILED}),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_without_a_leader_the_reason_is_told(told: Any, code: ErrorCode) -> None:
    memory = driver(Metadata=told)
    with pytest.raises(ErrorResponse) as raised:
        memory.run(fetch, PARTITION, 0)
    assert raised.value.code is code
    assert len(memory.pauses) == (3 if code.retriable else 0)


def test_a_batch_goes_to_the_leader_and_its_offset_comes_back() -> None:
    memory = driver(Produce=produced())
    assert memory.run(produce, PARTITION, RECORDS, compression="lz4") == Produced(PARTITION, 7, -1, 2)
    (asked,) = asked_of(memory.brokers[ADDRESS], "Produce")
    (topic,) = asked.message.topic_data
    (part,) = topic.partition_data
    assert (asked.header.api_version, asked.message.acks) == (13, -1)
    assert (topic.topic_id, part.index) == (TOPIC_ID, 0)
    header = parse_header(part.records)
    assert (header.record_count, header.codec, header.base_timestamp) == (2, 3, NOW_MS)


def test_produce_and_fetch_speak_version_12_without_topic_ids() -> None:
    told = metadata_message({"orders": [1]}, topic_id=bytes(16))
    memory = driver(Metadata=told, Produce=produced(), Fetch=fetched())
    memory.run(produce, PARTITION, RECORDS)
    memory.run(fetch, PARTITION, 0)
    (produce_asked,) = asked_of(memory.brokers[ADDRESS], "Produce")
    (fetch_asked,) = asked_of(memory.brokers[ADDRESS], "Fetch")
    assert (produce_asked.header.api_version, produce_asked.message.topic_data[0].name) == (12, "orders")
    assert (fetch_asked.header.api_version, fetch_asked.message.topics[0].topic) == (12, "orders")


def test_produce_with_acks_0_returns_no_offset() -> None:
    memory = driver(Produce=produced())
    assert memory.run(produce, PARTITION, RECORDS, acks=0) == Produced(PARTITION)


def test_a_batch_that_went_to_an_old_leader_goes_to_the_new_one() -> None:
    refusal = produced(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    memory, _, second = two_brokers({"Produce": refusal}, {"Produce": produced()}, 1, 2)
    assert memory.run(produce, PARTITION, RECORDS).base_offset == 7
    assert len(asked_of(second, "Produce")) == 1


@for_each(
    ("failure", "tries_without", "tries_with"),
    [
        (CLOSED, 1, 2),
        (produced(ErrorCode.REQUEST_TIMED_OUT), 1, 2),
        (produced(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), 1, 2),
        (produced(ErrorCode.NOT_ENOUGH_REPLICAS), 2, 2),
        (UNREACHABLE, 2, 2),
        (produced(ErrorCode.MESSAGE_TOO_LARGE), 1, 1),
        (produced(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 1, 1),
    ],
)
def test_only_an_idempotent_producer_sends_again_what_may_have_been_appended(
    failure: Any, tries_without: int, tries_with: int
) -> None:
    for producer, tries in ((None, tries_without), (IdempotentProducer(5, 0), tries_with)):
        memory = driver(Produce=[failure, produced()])
        if tries == 1:
            with pytest.raises(ClientError):
                memory.run(produce, PARTITION, RECORDS, producer=producer)
        else:
            memory.run(produce, PARTITION, RECORDS, producer=producer)
        assert len(memory.pauses) == tries - 1


def test_an_idempotent_producer_counts_its_records_and_repeats_a_batch_as_it_was() -> None:
    answers = [produced(), produced(ErrorCode.NOT_LEADER_OR_FOLLOWER), produced()]
    memory = driver(
        InitProducerId=InitProducerIdResponse(error_code=0, producer_id=5, producer_epoch=1), Produce=answers
    )
    producer = memory.run(init_producer)
    for _ in range(2):
        memory.run(produce, PARTITION, RECORDS, producer=producer)
    batches = [
        bytes(asked.message.topic_data[0].partition_data[0].records)
        for asked in asked_of(memory.brokers[ADDRESS], "Produce")
    ]
    stamps = [(h.producer_id, h.producer_epoch, h.base_sequence) for h in map(parse_header, batches)]
    assert stamps == [(5, 1, 0), (5, 1, 2), (5, 1, 2)]
    assert batches[1] == batches[2]


@pytest.mark.parametrize("failures", [[CLOSED] * 4, [CLOSED, produced(ErrorCode.MESSAGE_TOO_LARGE)]])
def test_after_a_batch_in_doubt_the_producer_has_no_more_for_that_partition(failures: list[Any]) -> None:
    """The broker would take new records under an old number for a repetition, and drop them."""
    memory = driver(Produce=failures)
    producer = IdempotentProducer(5, 0)
    with pytest.raises(ClientError):
        memory.run(produce, PARTITION, RECORDS, producer=producer)
    with pytest.raises(ProducerInDoubt, match="last batch for orders-0 was appended is not known"):
        memory.run(produce, PARTITION, RECORDS, producer=producer)
    assert producer.next_stamp(TopicPartition("orders", 1)).base_sequence == 0


def test_after_a_refusal_the_producer_goes_on_with_the_same_number() -> None:
    memory = driver(Produce=[produced(ErrorCode.MESSAGE_TOO_LARGE), produced()])
    producer = IdempotentProducer(5, 0)
    with pytest.raises(ErrorResponse):
        memory.run(produce, PARTITION, RECORDS, producer=producer)
    with pytest.raises(ValueError, match="at least one record"):
        memory.run(produce, PARTITION, [], producer=producer)
    memory.run(produce, PARTITION, RECORDS, producer=producer)
    assert producer.next_stamp(PARTITION).base_sequence == 2


def test_a_producer_whose_batch_was_given_up_amid_the_way_is_in_doubt() -> None:
    memory, producer = driver(), IdempotentProducer(5, 0)
    steps = produce(memory.session, PARTITION, RECORDS, producer=producer)
    next(steps)
    steps.send([metadata_message({"orders": [1]})])
    steps.close()
    with pytest.raises(ProducerInDoubt):
        producer.next_stamp(PARTITION)


NOT_YET = [
    metadata_message({}, errors={"orders": code})
    for code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
]


def test_produce_waits_for_the_metadata_of_a_new_topic() -> None:
    """Longer than the retries of a request: brokers may be busy creating topics."""
    memory = driver(Metadata=[*NOT_YET * 5, metadata_message({"orders": [1]})], Produce=produced())
    assert memory.run(produce, PARTITION, RECORDS).base_offset == 7
    assert len(memory.pauses) == 10
    asked = [each.message for each in memory.brokers[ADDRESS].asked[:-1]]
    assert [request.allow_auto_topic_creation for request in asked] == [True] * 11
    memory.run(produce, PARTITION, RECORDS)
    assert len(memory.brokers[ADDRESS].asked) == 11 + 2


def test_produce_gives_up_a_topic_after_max_block_s() -> None:
    memory = driver(Metadata=NOT_YET[0])
    memory.session = attrs.evolve(
        memory.session, settings=attrs.evolve(memory.session.settings, max_block_s=1)
    )
    producer = IdempotentProducer(5, 0)
    other = TopicPartition("others", 0)
    batch = encode_batch(RECORDS, now_ms=NOW_MS)
    found = memory.run(produce_batches, {PARTITION: batch, other: batch}, producer=producer)
    assert [str(found[part]) for part in (PARTITION, other)] == [
        "topic 'orders': UNKNOWN_TOPIC_OR_PARTITION",
        "others-0: UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert sum(memory.pauses) == pytest.approx(1, abs=0.3)
    assert producer.next_stamp(PARTITION).base_sequence == 0


def test_produce_in_a_transaction_sends_nothing_if_a_topic_is_missing() -> None:
    memory = driver()
    memory.session = attrs.evolve(
        memory.session, settings=attrs.evolve(memory.session.settings, max_block_s=0)
    )
    memory.brokers[ADDRESS].answers["Metadata"] = metadata_message(
        {"orders": [1]}, errors={"others": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    )
    producer = TransactionalProducer(5, 0, transactional_id="t", timeout_ms=1000)
    producer.begin_transaction()
    batch = encode_batch(RECORDS, now_ms=NOW_MS)
    batches = {PARTITION: batch, TopicPartition("others", 0): batch}
    found = memory.run(produce_batches, batches, producer=producer)
    assert [type(found[part]) for part in batches] == [ErrorResponse] * 2
    assert producer.state is ProducerTransactionState.FAILED
    assert [type(each.message).__name__ for each in memory.brokers[ADDRESS].asked] == ["MetadataRequest"]


def test_produce_does_not_wait_for_a_topic_that_cannot_exist() -> None:
    memory = driver(Metadata=metadata_message({}, errors={"orders": ErrorCode.INVALID_TOPIC_EXCEPTION}))
    with pytest.raises(ErrorResponse, match="'orders': INVALID_TOPIC_EXCEPTION"):
        memory.run(produce, PARTITION, RECORDS)
    assert not memory.pauses


def test_produce_returns_what_failed_while_it_waited_for_a_topic() -> None:
    memory = driver(Metadata=UNREACHABLE)
    with pytest.raises(BrokerUnreachable):
        memory.run(produce, PARTITION, RECORDS, producer=IdempotentProducer(5, 0))


def test_next_stamp_wraps_the_sequence_number_after_the_largest() -> None:
    producer = IdempotentProducer(5, 0)
    producer.appended(PARTITION, 0x7FFFFFFF)
    assert producer.next_stamp(PARTITION).base_sequence == 0x7FFFFFFF
    producer.appended(PARTITION, 2)
    assert producer.next_stamp(PARTITION).base_sequence == 1
    assert producer.next_stamp(TopicPartition("orders", 1)).base_sequence == 0


def test_produce_treats_duplicate_sequence_number_as_success_without_an_offset() -> None:
    memory = driver(Produce=produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    assert memory.run(produce, PARTITION, RECORDS, producer=IdempotentProducer(5, 0)) == Produced(PARTITION)


def test_produce_with_an_idempotent_producer_requires_acks_all() -> None:
    with pytest.raises(ValueError, match="needs acks -1, not 1"):
        driver().run(produce, PARTITION, RECORDS, acks=1, producer=IdempotentProducer(5, 0))


def test_the_broker_s_own_words_are_in_the_error() -> None:
    memory = driver(Produce=produced(ErrorCode.INVALID_RECORD, message="the timestamp is odd"))
    with pytest.raises(ErrorResponse, match=r"orders-0: INVALID_RECORD \(the timestamp is odd\)"):
        memory.run(produce, PARTITION, RECORDS)


def test_an_answer_that_is_silent_on_the_partition_is_an_error() -> None:
    memory = driver(Produce=ProduceResponse(responses=[]), Fetch=FetchResponse(responses=[]))
    with pytest.raises(ErrorResponse, match="does not mention it"):
        memory.run(produce, PARTITION, RECORDS)
    with pytest.raises(ErrorResponse, match="does not mention it"):
        memory.run(fetch, PARTITION, 0)


def test_a_fetch_asks_as_it_is_told_and_brings_records_and_watermarks() -> None:
    memory = driver(
        Fetch=fetched(batch_at(2), aborted=[FetchAbortedTransaction(producer_id=9, first_offset=1)])
    )
    limits = FetchLimits(max_bytes=1000, min_bytes=5, max_wait_ms=70, read_committed=True)
    answer = memory.run(fetch, PARTITION, 3, limits)
    assert [(record.offset, record.value) for record in answer.records()] == [(3, b"3")]
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (4, 4, 0)
    assert answer.aborted == [(9, 1)]
    (asked,) = asked_of(memory.brokers[ADDRESS], "Fetch")
    request: FetchRequest = asked.message
    assert (request.min_bytes, request.max_wait_ms, request.max_bytes) == (5, 70, 1000)
    assert (request.isolation_level, request.topics[0].partitions[0].fetch_offset) == (1, 3)


def test_a_fetch_follows_the_leader_and_gives_up_on_a_wrong_offset() -> None:
    memory, _, _ = two_brokers(
        {"Fetch": fetched(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)}, {"Fetch": fetched()}, 1, 2
    )
    assert memory.run(fetch, PARTITION, 0).high_watermark == 4
    memory = driver(Fetch=fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(ErrorResponse, match=r"orders-0: OFFSET_OUT_OF_RANGE \(offset 99\)"):
        memory.run(fetch, PARTITION, 99)
    assert memory.pauses == []


def test_fetch_partitions_and_produce_batches_send_one_request_to_each_leader() -> None:
    second_partition = TopicPartition("orders", 1)
    told = metadata_message({"orders": [1, 2]}, brokers=BOTH)
    brokers = [
        FakeBroker({"Metadata": told, "Fetch": fetched(index=index), "Produce": produced(index=index)})
        for index in (0, 1)
    ]
    memory = MemoryDriver(dict(zip((ADDRESS, OTHER), brokers, strict=True)))
    fetching = memory.run(fetch_partitions, {PARTITION: 3, second_partition: 4}, FetchLimits(max_wait_ms=100))
    assert [each.offset for each in or_raise(fetching).values()] == [3, 4]
    batch = encode_batch(RECORDS, now_ms=NOW_MS)
    producing = memory.run(produce_batches, {PARTITION: batch, second_partition: batch})
    assert [each.base_offset for each in or_raise(producing).values()] == [7, 7]
    for broker in brokers:
        assert [asked.message.max_wait_ms for asked in asked_of(broker, "Fetch")] == [50]
        assert len(asked_of(broker, "Produce")) == 1


def test_fetch_partitions_returns_an_empty_response_for_a_partition_without_news() -> None:
    memory = driver(Fetch=[in_session(fetched(batch_at(0))), in_session(FetchResponse(responses=[]))])
    sessions = FetchSessions()
    or_raise(memory.run(fetch_partitions, {PARTITION: 0}, FetchLimits(), sessions))
    again = or_raise(memory.run(fetch_partitions, {PARTITION: 2}, FetchLimits(), sessions))[PARTITION]
    assert (again.offset, bytes(again.data), again.high_watermark, again.next_offset()) == (2, b"", 4, 2)


def test_fetch_partitions_retries_a_response_without_partitions_of_a_throttled_broker() -> None:
    throttled = FetchResponse(responses=[], throttle_time_ms=5)
    memory = driver(Fetch=[throttled, fetched(batch_at(0))])
    assert memory.run(fetch, PARTITION, 0).next_offset() == 2
    assert len(memory.pauses) == 1


def test_fetch_partitions_continues_without_the_session_that_a_broker_has_closed() -> None:
    closed = FetchResponse(responses=[], error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    memory = driver(Fetch=[in_session(fetched()), closed, fetched(), in_session(fetched())])
    sessions = FetchSessions()
    for _ in range(3):
        or_raise(memory.run(fetch_partitions, {PARTITION: 0}, FetchLimits(), sessions))
    asked = [asked.message for asked in asked_of(memory.brokers[ADDRESS], "Fetch")]
    assert [(each.session_id, each.session_epoch) for each in asked] == [(0, 0), (9, 1), (0, -1), (0, 0)]


def test_close_fetch_sessions_frees_the_place_at_each_broker_without_waiting() -> None:
    told = metadata_message({"orders": [1, 2]}, brokers=BOTH)
    ended = FetchResponse(responses=[], session_id=0)
    first = FakeBroker({"Metadata": told, "Fetch": [in_session(fetched()), CLOSED, fetched()]})
    second = FakeBroker({"Metadata": told, "Fetch": [in_session(fetched(index=1)), ended]})
    memory, sessions = MemoryDriver({ADDRESS: first, OTHER: second}), FetchSessions()
    or_raise(memory.run(fetch_partitions, dict.fromkeys([PARTITION, SECOND], 0), fetch_sessions=sessions))
    memory.run(close_fetch_sessions, sessions)
    for broker in (first, second):
        closing = asked_of(broker, "Fetch")[-1].message
        assert (closing.session_id, closing.session_epoch, closing.topics) == (9, -1, [])
        assert (closing.max_wait_ms, closing.min_bytes) == (0, 0)
    memory.run(close_fetch_sessions, sessions)
    assert [len(asked_of(broker, "Fetch")) for broker in (first, second)] == [2, 2]
    or_raise(memory.run(fetch_partitions, {PARTITION: 0}, fetch_sessions=sessions))
    again = asked_of(first, "Fetch")[-1].message
    assert (again.session_id, again.session_epoch) == (0, 0)


@for_each(("partitions", "named"), [(1, "orders-0"), (2, "orders-0 and 1 others")])
def test_an_error_of_a_whole_fetch_is_that_of_all_its_partitions(partitions: int, named: str) -> None:
    memory = driver(
        Metadata=metadata_message({"orders": [1] * partitions}),
        Fetch=FetchResponse(responses=[], error_code=ErrorCode.INVALID_REQUEST),
    )
    wanted = [TopicPartition("orders", index) for index in range(partitions)]
    found = memory.run(fetch_partitions, dict.fromkeys(wanted, 0))
    assert {part: str(error) for part, error in found.items()} == dict.fromkeys(
        wanted, f"{named}: INVALID_REQUEST"
    )


@pytest.mark.parametrize("operation", [list_offsets, fetch_partitions, produce_batches])
def test_operations_retry_when_leaders_cannot_be_looked_up(operation: Any) -> None:
    batch = encode_batch(RECORDS, now_ms=NOW_MS)
    memory = driver(
        Metadata=[UNREACHABLE, metadata_message({"orders": [1]})],
        ListOffsets=offsets,
        Fetch=fetched(),
        Produce=produced(),
    )
    wanted: dict[TopicPartition, Any] = {PARTITION: batch if operation is produce_batches else 0}
    or_raise(memory.run(operation, wanted))
    assert len(memory.pauses) == 1


def test_a_fetch_whose_connection_broke_is_tried_again() -> None:
    memory = driver(Fetch=[CLOSED, fetched(batch_at(0))])
    assert len(list(memory.run(fetch, PARTITION, 0).records())) == 2


def read(memory: MemoryDriver, reader: PartitionReader) -> list[int]:
    seen: list[int] = []
    while not reader.finished:
        seen += [record.offset for record in memory.run(reader.poll)]
    return seen


def test_partition_reader_ends_at_the_high_watermark_of_the_first_response() -> None:
    answers = [
        fetched(batch_at(0), high_watermark=5),
        fetched(batch_at(2, 1) + batch_at(4, 1) + batch_at(5), high_watermark=7),
    ]
    memory = driver(Fetch=answers)
    reader = PartitionReader(PARTITION, 0)
    assert read(memory, reader) == [0, 1, 2, 4]
    asked = asked_of(memory.brokers[ADDRESS], "Fetch")
    assert [each.message.topics[0].partitions[0].fetch_offset for each in asked] == [0, 2]
    assert (reader.log_end, reader.log_start) == (7, 0)


def test_partition_reader_ends_when_nothing_is_left_below_its_stop() -> None:
    """Compaction can remove all records from an offset on; an empty active segment holds the log's end."""
    answers = [fetched(batch_at(0), high_watermark=90), fetched(high_watermark=90)]
    memory = driver(Fetch=answers, ListOffsets=found_at(0))
    assert read(memory, PartitionReader(PARTITION, 0, stop=90)) == [0, 1]
    waits = [asked.message.max_wait_ms for asked in asked_of(memory.brokers[ADDRESS], "Fetch")]
    assert waits == [500, 0]


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST])
def test_partition_reader_ends_at_brokers_without_earliest_local_timestamp(code: ErrorCode) -> None:
    memory = driver(Fetch=fetched(high_watermark=90), ListOffsets=found_at(-1, code))
    assert read(memory, PartitionReader(PARTITION, 10)) == []


def test_partition_reader_waits_for_records_of_remote_storage() -> None:
    """A broker that takes too long to read them responds without records, and without an error."""
    answers = [fetched(high_watermark=2), fetched(high_watermark=2), fetched(batch_at(0), high_watermark=2)]
    memory = driver(Fetch=answers, ListOffsets=found_at(1))
    assert read(memory, PartitionReader(PARTITION, 0)) == [0, 1]


def test_partition_reader_waits_for_a_stop_beyond_the_end_of_the_log() -> None:
    answers = [fetched(high_watermark=0), fetched(high_watermark=0), fetched(batch_at(0), high_watermark=2)]
    memory = driver(Fetch=answers)
    assert read(memory, PartitionReader(PARTITION, 0, stop=2)) == [0, 1]


@for_each("stop", [5, 6])
def test_partition_reader_polls_batches_that_overlap_its_range(stop: int) -> None:
    data = batch_at(0) + batch_at(2) + batch_at(4) + batch_at(6)
    reader = PartitionReader(PARTITION, 3, stop)
    assert (reader.log_start, reader.log_end) == (-1, -1)
    batches = driver(Fetch=fetched(data)).run(reader.poll_batches)
    assert [(header.base_offset, bytes(batch)) for header, batch in batches] == [
        (2, batch_at(2)),
        (4, batch_at(4)),
    ]
    assert (reader.position, reader.finished) == (8, True)


def test_partition_reader_with_read_committed_stops_at_the_last_stable_offset() -> None:
    memory = driver(Fetch=fetched(batch_at(0, 4), stable=3))
    assert read(memory, PartitionReader(PARTITION, 1, limits=FetchLimits(read_committed=True))) == [1, 2]


def test_partition_reader_with_read_committed_ends_before_a_transaction_at_offset_0() -> None:
    committed = FetchLimits(read_committed=True)
    memory = driver(Fetch=[fetched(high_watermark=4, stable=0)])
    assert read(memory, PartitionReader(PARTITION, 0, limits=committed)) == []
    memory = driver(Fetch=[fetched(batch_at(0), high_watermark=2, stable=-1)])
    assert read(memory, PartitionReader(PARTITION, 0, limits=committed)) == [0, 1]


def test_partition_reader_stops_at_its_stop_offset() -> None:
    memory = driver(Fetch=fetched(batch_at(0, 4)))
    assert read(memory, PartitionReader(PARTITION, 0, stop=3)) == [0, 1, 2]
    assert read(memory, PartitionReader(PARTITION, 3, stop=3)) == []


def test_partition_reader_of_an_empty_log_finishes_at_once() -> None:
    assert read(driver(Fetch=fetched(high_watermark=0)), PartitionReader(PARTITION, 0)) == []


def test_list_offsets_reads_the_newest_of_the_old_style_offsets_of_version_0() -> None:
    part = ListOffsetsPartitionResponse(partition_index=0, error_code=0, old_style_offsets=[42, 30, 0])
    told = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[part])])
    broker = FakeBroker(
        {"Metadata": metadata_message({"orders": [1]}), "ListOffsets": told}, {**ALL_VERSIONS, 2: (0, 0)}
    )
    assert MemoryDriver({ADDRESS: broker}).run(list_offsets, [PARTITION]) == {PARTITION: FoundOffset(42)}


def test_list_offsets_and_fetch_speak_the_versions_of_old_brokers() -> None:
    broker = FakeBroker(
        {
            "Metadata": metadata_message({"orders": [1]}),
            "ListOffsets": offsets,
            "Fetch": fetched(batch_at(0)),
        },
        {**ALL_VERSIONS, 1: (0, 4), 2: (0, 1), 3: (0, 4)},
    )
    memory = MemoryDriver({ADDRESS: broker})
    assert or_raise(memory.run(list_offsets, [PARTITION]))[PARTITION].offset == 100
    assert len(list(memory.run(fetch, PARTITION, 0).records())) == 2
