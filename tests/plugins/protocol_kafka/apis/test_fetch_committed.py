"""Fetch and ListOffsets for those who read committed data only."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.deadlines import DEADLINE_S
from tidelog.kernel.broker import Broker
from tidelog.kernel.testing import make_batch
from tidelog.kernel.topics import Topic
from tidelog.plugins.protocol_kafka.messages.api import FETCH, LIST_OFFSETS
from tidelog.plugins.protocol_kafka.messages.fetch import FetchAbortedTransaction, PartitionData
from tidelog.plugins.protocol_kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

from .client import Client, versions_of
from .test_fetch import fetch, offsets_of, parts_of
from .topics import new_topic

COMMITTED = 1
ISOLATION_SINCE = 4
LATEST = -1


async def with_transactions(broker: Broker) -> Topic:
    """A topic with records 0 and 6 outside, 1 and 2 aborted by 3, 4 committed by 5, and 7 undecided."""
    topic = await new_topic(broker)
    partition = topic.partitions[0]
    partition.log.append_nowait(make_batch())
    for producer_id, count, commit in ((1, 2, False), (2, 1, True)):
        write(topic, producer_id, count)
        partition.log.append_marker(producer_id, 0, 0, commit=commit)
    partition.log.append_nowait(make_batch())
    write(topic, 3, 1)
    return topic


def write(topic: Topic, producer_id: int, count: int) -> None:
    batch = make_batch(
        [b"value"] * count, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True
    )
    topic.partitions[0].log.append_nowait(batch, in_transaction=True)


async def ask(
    client: Client, version: int, topic: Topic, offset: int = 0, isolation: int = COMMITTED
) -> PartitionData:
    request = fetch(topic, {0: offset}, isolation_level=isolation)
    (part,) = parts_of(await client.ask(FETCH, version, request))
    return part


@pytest.mark.parametrize("version", [v for v in versions_of(FETCH) if v >= ISOLATION_SINCE])
async def test_fetch_committed_ends_at_open_transactions_and_lists_aborted_ones(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await with_transactions(broker)
    part = await ask(client, version, topic)
    assert (part.last_stable_offset, part.high_watermark) == (7, 8)
    assert part.aborted_transactions == [FetchAbortedTransaction(producer_id=1, first_offset=1)]
    assert offsets_of(part)[-1] == 6
    later = await ask(client, version, topic, offset=4)
    assert (later.aborted_transactions, offsets_of(later)) == ([], [4, 5, 6])
    at_the_end = await ask(client, version, topic, offset=7)
    assert (at_the_end.aborted_transactions, offsets_of(at_the_end)) == ([], [])


@pytest.mark.parametrize("version", versions_of(FETCH))
async def test_fetch_uncommitted_reads_everything_and_lists_no_aborted_transactions(
    client: Client, broker: Broker, version: int
) -> None:
    topic = await with_transactions(broker)
    part = await ask(client, version, topic, isolation=0)
    assert part.aborted_transactions is None
    if version >= ISOLATION_SINCE:
        assert part.last_stable_offset == 7
        assert offsets_of(part)[-1] == 7


async def test_fetch_committed_is_woken_by_the_marker_and_not_before(client: Client, broker: Broker) -> None:
    topic = await with_transactions(broker)
    answers: list[PartitionData] = []

    async def wait() -> None:
        request = fetch(topic, {0: 7}, isolation_level=COMMITTED, max_wait_ms=30_000)
        answers.extend(parts_of(await client.ask(FETCH, 11, request)))

    with trio.fail_after(DEADLINE_S):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await wait_all_tasks_blocked()
            topic.partitions[0].log.append_nowait(make_batch())
            await wait_all_tasks_blocked()
            assert answers == []
            topic.partitions[0].log.append_marker(3, 0, 0, commit=False)
    assert offsets_of(answers[0]) == [7, 8, 9]
    assert answers[0].aborted_transactions == [FetchAbortedTransaction(producer_id=3, first_offset=7)]


@pytest.mark.parametrize("version", [v for v in versions_of(LIST_OFFSETS) if v >= 2])
@pytest.mark.parametrize(("isolation", "offset"), [(0, 8), (1, 7)])
async def test_list_offsets_returns_the_latest_offset_by_isolation_level(
    client: Client, broker: Broker, version: int, isolation: int, offset: int
) -> None:
    topic = await with_transactions(broker)
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=topic.name, partitions=[asked])],
    )
    response = await client.ask(LIST_OFFSETS, version, request)
    assert response.topics[0].partitions[0].offset == offset
