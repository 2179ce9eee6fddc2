"""What is fetched ahead: the source is asked for more while a chunk is verified, and nothing is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import trio

from tests.deadlines import until
from tests.plugins.mirror.clusters import settings, some_records
from tidelog.kernel.records.batch import stamp_offset
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import build_batch
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.fetched import Fetched
from tidelog.plugins.client.operations.offsets import FoundOffset, list_offsets
from tidelog.plugins.mirror.copy_plan import CopyPlan
from tidelog.plugins.mirror.failing_partitions import FailingPartitions
from tidelog.plugins.mirror.ledger import Ledger, start_record
from tidelog.plugins.mirror.ledger_reading import SourceMirrors
from tidelog.plugins.mirror.source_fetching import CopiedPart, Doubt, SourceFetcher
from tidelog.plugins.mirror.statistics import MirrorStatistics
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
BATCH = 10
END = 50


class Source:
    """A cluster whose partitions have batches of ten records each, one of which a fetch returns."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.corrupt: set[int] = set()
        self.start = 0
        self.epochs: dict[int, int] = {}

    async def run(self, operation: Callable[..., Any], *args: Any, **_others: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if operation is list_offsets:
            return {each: FoundOffset(self.start, -1, -1) for each in args[0]}
        offsets: Mapping[TopicPartition, int] = args[0]
        self.asked.append(offsets.get(PLACE, -1))
        return {partition: self._fetched(partition, offset) for partition, offset in offsets.items()}

    def _fetched(self, partition: TopicPartition, offset: int) -> Fetched | ErrorResponse:
        if not self.start <= offset <= END:
            return ErrorResponse(ErrorCode.OFFSET_OUT_OF_RANGE, str(partition))
        data = bytearray()
        if offset < END:
            data = build_batch(some_records(*(str(offset + each) for each in range(BATCH))), now_ms=0)
            stamp_offset(data, offset, self.epochs.get(offset, 0))
            if partition == PLACE and offset in self.corrupt:
                data[-1] ^= 1
        return Fetched(partition, offset, END, END, 0, memoryview(data))


class Fetching:
    """A fetcher of two partitions from the source, without pauses after errors."""

    def __init__(self, source: Source) -> None:
        mirror = settings("m", "source", "orders", retry_backoff_s=0.0)
        self.statistics = MirrorStatistics("m", "source")
        failing = FailingPartitions(mirror, self.statistics)
        ledger = Ledger()
        for partition in (PLACE, OTHER):
            ledger.apply(start_record(partition, 0))
        self.fetcher = SourceFetcher(mirror, source, source, ledger, failing, self.statistics)
        mirrors = SourceMirrors("target", include_mirrored=True)
        self.fetcher.follow(CopyPlan({}, {PLACE: PLACE, OTHER: OTHER}), (), mirrors)
        self.fetcher.ends = {PLACE: END, OTHER: END}

    async def all(self) -> list[CopiedPart]:
        """What is sent up to the end."""
        parts: list[CopiedPart] = []
        send, receive = trio.open_memory_channel[list[CopiedPart]](0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.fetcher.fetch_until, send, float("inf"))
            async for chunk in receive:
                parts += chunk
        return parts


def ranges(parts: list[CopiedPart], partition: TopicPartition = PLACE) -> list[tuple[int, int]]:
    """First and next offset of each part of a partition."""
    return [
        (part.batches[partition][0].first_offset, part.next_offset)
        for part in parts
        if part.partition == partition
    ]


ALL = [(first, first + BATCH) for first in range(0, END, BATCH)]


async def test_fetch_until_sends_each_offset_once() -> None:
    source = Source()
    parts = await Fetching(source).all()
    assert ranges(parts) == ranges(parts, OTHER) == ALL
    assert source.asked == [first for first, _ in ALL]


async def test_the_next_chunk_is_fetched_while_one_waits_for_the_target() -> None:
    source = Source()
    fetching = Fetching(source)
    send, receive = trio.open_memory_channel[list[CopiedPart]](0)
    async with trio.open_nursery() as nursery, receive:
        nursery.start_soon(fetching.fetcher.fetch_until, send, float("inf"))
        await until(lambda: len(source.asked) > 1, "a second fetch")
        nursery.cancel_scope.cancel()
    assert source.asked[:2] == [0, BATCH]


async def test_what_was_fetched_behind_a_corrupt_batch_is_fetched_again() -> None:
    source = Source()
    fetching = Fetching(source)
    source.corrupt = {2 * BATCH}
    parts: list[CopiedPart] = []
    send, receive = trio.open_memory_channel[list[CopiedPart]](0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetching.fetcher.fetch_until, send, float("inf"))
        async for chunk in receive:
            parts += chunk
            if fetching.statistics.problems:
                source.corrupt.clear()
    (problem,) = fetching.statistics.problems.values()
    assert "the CRC of the batch at offset 20 is wrong" in problem
    assert source.asked.count(2 * BATCH) > 1
    assert ranges(parts) == ranges(parts, OTHER) == ALL


async def test_offsets_that_the_source_has_deleted_are_lost(caplog: pytest.LogCaptureFixture) -> None:
    source = Source()
    source.start = 2 * BATCH
    fetching = Fetching(source)
    assert ranges(await fetching.all()) == ALL[2:]
    assert fetching.statistics.lost == 2 * 2 * BATCH
    assert "orders-0: the source has deleted the offsets 0 to 19 before they were copied" in caplog.text


async def test_what_another_leader_has_appended_is_sent_when_it_is_known_to_follow() -> None:
    source = Source()
    source.epochs = dict.fromkeys(range(2 * BATCH, END), 1)
    fetching = Fetching(source)
    assert ranges(await fetching.all()) == ALL[:2]
    fetcher = fetching.fetcher
    assert fetcher.doubtful == dict.fromkeys((PLACE, OTHER), Doubt.EPOCH)
    for partition in list(fetcher.doubtful):
        fetcher.continue_at(partition, 2 * BATCH)
    assert ranges(await fetching.all()) == ALL[2:]


async def test_a_log_that_is_shorter_than_what_was_copied_is_doubtful() -> None:
    source = Source()
    fetching = Fetching(source)
    fetching.fetcher.ends = None
    fetching.fetcher.continue_at(PLACE, END + 1)
    await fetching.all()
    assert fetching.fetcher.doubtful == {PLACE: Doubt.SHORTER}
