"""Transactions, offsets of groups and fetch sessions, with both drivers against tidelog and Apache Kafka."""

from __future__ import annotations

import uuid
from typing import Any

import attrs
import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.plugins.client.driven import QUICK, Driven, trio_driven
from tests.plugins.client.test_real_brokers import new_topic
from tidelog.plugins.client import (
    EARLIEST_TIMESTAMP,
    FetchLimits,
    FetchSessions,
    GroupOffset,
    NewRecord,
    RetryPolicy,
    TopicPartition,
    TransactionalProducer,
    or_raise,
)
from tidelog.plugins.client.batches import encode_batch
from tidelog.plugins.client.errors import ErrorResponse, FencedProducer
from tidelog.plugins.client.fetched import Fetched

COMMITTED = FetchLimits(read_committed=True)
PATIENT = attrs.evolve(
    QUICK, operation_timeout_s=DEADLINE_S, retry=RetryPolicy(retries=200, max_backoff_s=0.2)
)
"""Apache Kafka creates the internal topics of the coordinators at their first use, which takes a while."""


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4()}"


async def begun(client: Driven, transactional_id: str) -> TransactionalProducer:
    producer: TransactionalProducer = await client.call("init_transactions", transactional_id)
    producer.begin_transaction()
    return producer


async def write(
    client: Driven, producer: TransactionalProducer, partition: TopicPartition, *values: bytes
) -> None:
    await client.call("produce", partition, [NewRecord(value) for value in values], producer=producer)


async def values(client: Driven, partition: TopicPartition) -> list[bytes | None]:
    """Return the committed values, once no transaction is open: Apache Kafka writes markers afterwards."""
    await ended(client, partition)
    return [record.value for record in await client.read(partition, 0, None, COMMITTED)]


async def ended(client: Driven, partition: TopicPartition) -> None:
    with trio.fail_after(DEADLINE_S):
        while await end_of(client, partition, read_committed=True) < await end_of(client, partition):
            pass


async def end_of(client: Driven, partition: TopicPartition, *, read_committed: bool = False) -> int:
    outcomes = await client.call("list_offsets", [partition], read_committed=read_committed)
    return int(or_raise(outcomes)[partition].offset)


async def test_a_transaction_commits_records_and_offsets_together_or_not_at_all(
    connect: Any, real_broker: str
) -> None:
    async with connect(real_broker, PATIENT) as client:
        topic, group = await new_topic(client, 2), unique("group")
        output, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        producer = await begun(client, unique("tx"))
        await write(client, producer, output, b"a1", b"a2")
        await write(client, producer, second, b"b1")
        await client.call("send_offsets", producer, group, {second: GroupOffset(3, "batch 3")})
        for partition in (output, second):
            assert await client.read(partition, 0, None, COMMITTED) == []
        await client.call("commit_transaction", producer)
        assert (await values(client, output), await values(client, second)) == ([b"a1", b"a2"], [b"b1"])
        assert await client.call("committed_offsets", group) == {second: GroupOffset(3, "batch 3")}

        producer.begin_transaction()
        await write(client, producer, output, b"a3")
        await client.call("send_offsets", producer, group, {second: GroupOffset(4)})
        await client.call("abort_transaction", producer)
        producer.begin_transaction()
        await write(client, producer, output, b"a4")
        await client.call("commit_transaction", producer)
        assert await values(client, output) == [b"a1", b"a2", b"a4"]
        everything = await client.read(output, 0)
        assert [record.value for record in everything] == [b"a1", b"a2", b"a3", b"a4"]
        assert await client.call("committed_offsets", group, [second]) == {second: GroupOffset(3, "batch 3")}


async def test_read_batches_leaves_out_aborted_batches_and_ends_after_markers(
    connect: Any, real_broker: str
) -> None:
    async with connect(real_broker, PATIENT) as client:
        partition = TopicPartition(await new_topic(client), 0)
        producer = await begun(client, unique("tx"))
        for end in ("commit", "abort", "commit", "abort"):
            await write(client, producer, partition, b"x", b"y")
            await client.call(f"{end}_transaction", producer)
            await ended(client, partition)
            producer.begin_transaction()
        await write(client, producer, partition, b"open")
        stable = or_raise(await client.call("list_offsets", [partition], read_committed=True))[
            partition
        ].offset
        latest = or_raise(await client.call("list_offsets", [partition]))[partition].offset
        assert (stable, latest) == (12, 13)
        with trio.fail_after(DEADLINE_S):
            batches = await client.read_batches(partition, 0, stable, COMMITTED)
            assert [header.base_offset for header, _ in batches] == [0, 6]
            assert [header.base_offset for header, _ in await client.read_batches(partition, 7, 8)] == [6]
            assert await client.read_batches(partition, 3, 6, COMMITTED) == []
        await client.call("abort_transaction", producer)


async def test_a_newer_producer_fences_the_one_before_and_aborts_its_transaction(
    connect: Any, real_broker: str
) -> None:
    async with connect(real_broker, PATIENT) as client:
        partition, transactional_id = TopicPartition(await new_topic(client), 0), unique("tx")
        older = await begun(client, transactional_id)
        await write(client, older, partition, b"older")
        newer = await begun(client, transactional_id)
        await write(client, newer, partition, b"newer")
        with pytest.raises(FencedProducer, match=transactional_id):
            await client.call("commit_transaction", older)
        with pytest.raises(FencedProducer, match=transactional_id):
            await client.call("abort_transaction", older)
        await client.call("commit_transaction", newer)
        assert await values(client, partition) == [b"newer"]


async def test_abort_transaction_after_a_refused_batch_lets_the_producer_continue(
    connect: Any, real_broker: str
) -> None:
    async with connect(real_broker, PATIENT) as client:
        partition = TopicPartition(await new_topic(client, 1, {"max.message.bytes": "1000"}), 0)
        producer = await begun(client, unique("tx"))
        await write(client, producer, partition, b"lost")
        with pytest.raises(ErrorResponse, match="MESSAGE_TOO_LARGE"):
            await write(client, producer, partition, bytes(2000))
        epoch = producer.producer_epoch
        await client.call("abort_transaction", producer)
        assert producer.producer_epoch > epoch
        producer.begin_transaction()
        await write(client, producer, partition, b"kept")
        await client.call("commit_transaction", producer)
        assert await values(client, partition) == [b"kept"]


async def test_offsets_of_a_group_are_committed_and_fetched_without_membership(
    connect: Any, real_broker: str
) -> None:
    async with connect(real_broker, PATIENT) as client:
        topic, group = await new_topic(client, 3), unique("group")
        parts = [TopicPartition(topic, index) for index in range(3)]
        assert await client.call("committed_offsets", group, parts[:1]) == {parts[0]: GroupOffset(-1)}
        offsets = {parts[0]: GroupOffset(5, "text"), parts[1]: GroupOffset(7)}
        assert await client.call("commit_offsets", group, offsets) == {parts[0]: None, parts[1]: None}
        assert await client.call("committed_offsets", group) == offsets
        assert await client.call("committed_offsets", group, parts) == {**offsets, parts[2]: GroupOffset(-1)}
    async with connect(real_broker) as client:
        missing = TopicPartition(topic, 9)
        outcome = (await client.call("commit_offsets", group, {missing: GroupOffset(1)}))[missing]
        assert "UNKNOWN_TOPIC_OR_PARTITION" in str(outcome)


async def test_list_offsets_takes_a_timestamp_for_each_partition(connect: Any, real_broker: str) -> None:
    async with connect(real_broker) as client:
        first, second = (
            TopicPartition(topic, 0) for topic in (await new_topic(client), await new_topic(client))
        )
        for partition in (first, second):
            records = [NewRecord(b"x", timestamp=time) for time in (1000, 2000, 3000)]
            await client.call("produce", partition, records)
        wanted = {first: 1500, second: EARLIEST_TIMESTAMP}
        found = or_raise(await client.call("list_offsets", wanted, wanted))
        assert (found[first].offset, found[second].offset) == (1, 0)


async def test_fetch_partitions_within_a_session_returns_what_full_requests_return(
    connect: Any, real_broker: str
) -> None:
    limits = FetchLimits(max_wait_ms=50)
    async with connect(real_broker) as client:
        topic = await new_topic(client, 3)
        parts = [TopicPartition(topic, index) for index in range(3)]
        offsets, sessions = dict.fromkeys(parts, 0), FetchSessions()
        seen: dict[TopicPartition, list[bytes | None]] = {part: [] for part in parts}
        fetched: dict[TopicPartition, Fetched] = {}
        for turn in range(4):
            written = parts[turn % 3]
            batch = encode_batch([NewRecord(b"%d" % turn)], now_ms=1000)
            or_raise(await client.call("produce_batches", {written: batch}))
            fetched = or_raise(await client.call("fetch_partitions", offsets, limits, sessions))
            assert fetched[written].high_watermark == offsets[written] + 1
            for part, each in fetched.items():
                seen[part] += [record.value for record in each.records()]
                offsets[part] = each.next_offset()
        assert list(seen.values()) == [[b"0", b"3"], [b"1"], [b"2"]]
        assert {each.high_watermark for each in fetched.values()} == {1, 2}
        del offsets[parts[0]]
        assert list(or_raise(await client.call("fetch_partitions", offsets, limits, sessions))) == parts[1:]
        outcomes = await client.call("fetch_partitions", {parts[0]: 99, parts[1]: 0}, limits, sessions)
        assert "OFFSET_OUT_OF_RANGE" in str(outcomes[parts[0]])
        assert outcomes[parts[1]].next_offset() == 1
        await client.call("close_fetch_sessions", sessions)
        assert not sessions.open_sessions()


async def test_fetch_sessions_are_incremental(real_broker: str) -> None:
    limits, sessions = FetchLimits(max_wait_ms=10), FetchSessions()
    async with trio_driven(real_broker) as client:
        parts = {TopicPartition(await new_topic(client), 0): 0}
        for epoch in (1, 2, 3):
            or_raise(await client.call("fetch_partitions", parts, limits, sessions))
            ((_, session),) = sessions.open_sessions().items()
            assert session.epoch == epoch
        # Another request with the same epoch is one that the broker does not expect.
        session.epoch = 1
        or_raise(await client.call("fetch_partitions", parts, limits, sessions))
        or_raise(await client.call("fetch_partitions", parts, limits, sessions))
        assert session.epoch == 1
        await client.call("close_fetch_sessions", sessions)
