"""Reading committed batches in process: what is left out, gaps, bounds, deleted offsets, cold files."""

from __future__ import annotations

import random
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.kernel.records.message_sets import GZIP, LZ4, Row, plain_set, wrapper
from tests.log_cleanup import log_cleanup_of
from tidelog.kernel.broker import Broker
from tidelog.kernel.errors import (
    CorruptBatch,
    NotLeaderOrFollower,
    OffsetBelowLogStart,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.batch import verify_crc
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.sinks import CommittedChunk
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.sinks import committed_log
from tidelog.kernel.sinks.committed_log import PartitionLog
from tidelog.kernel.sinks.statistics import SinkStatistics
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker

NOW = 1_500_000_000_000
STORAGES = ("memory", "file")


@attrs.frozen
class Log:
    """A partition, and its log as sinks of both isolation levels read it."""

    broker: Broker
    partition: UnifiedLog
    statistics: SinkStatistics

    def of(self, isolation: Isolation = Isolation.READ_COMMITTED) -> PartitionLog:
        """The log for a sink of that isolation level."""
        return PartitionLog(self.partition, isolation, trio.CapacityLimiter(1), self.statistics)

    def append(self, *values: bytes) -> None:
        """A batch with these records."""
        self.partition.append_nowait(make_batch(values))

    def begin(self, producer_id: int, *values: bytes, sequence: int = 0) -> None:
        """A batch of the producer's transaction."""
        batch = make_batch(
            values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        self.partition.append_nowait(batch, in_transaction=True)

    def end(self, producer_id: int, *, commit: bool) -> None:
        """The end of the producer's transaction."""
        self.partition.append_marker(producer_id, 0, 0, commit=commit)


@asynccontextmanager
async def a_log(storage: str, folder: Path, **config: str) -> AsyncGenerator[Log]:
    """An empty log."""
    settings: dict[str, Any] = {"storage": storage}
    if storage == "file":
        settings["log.dirs"] = str(folder / "data")
    async with running_broker(settings) as broker:
        topic = await broker.topics.create(TopicSpec("t", 1, config=config))
        yield Log(broker, topic.partitions[0].log, SinkStatistics())


@pytest.fixture(params=STORAGES)
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Log]:
    """An empty log in each storage."""
    async with a_log(request.param, tmp_path) as made:
        yield made


async def chunks_of(log: PartitionLog, offset: int = 0, *args: int, **more: int) -> list[CommittedChunk]:
    """All chunks of a read; each begins where the one before ended."""
    chunks = [chunk async for chunk in log.read(offset, *args, **more)]
    for chunk in chunks:
        assert chunk.first_offset == offset < chunk.next_offset
        offset = chunk.next_offset
    return chunks


def values_in(chunks: Sequence[CommittedChunk]) -> bytes:
    """The values of all records within the offsets of their chunks."""
    return b"".join(
        record.value or b""
        for chunk in chunks
        for batch in chunk.batches
        for record in iter_records(batch.data, batch.header)
        if chunk.first_offset <= record.offset < chunk.next_offset
    )


async def test_read_yields_whole_batches_as_they_are_in_the_log(log: Log) -> None:
    batches = [make_batch([b"a", b"b"]), make_batch([b"c"])]
    for batch in batches:
        log.partition.append_nowait(batch)
    (chunk,) = await chunks_of(log.of())
    assert [bytes(each.data) for each in chunk.batches] == batches
    assert [each.header.base_offset for each in chunk.batches] == [0, 2]
    assert chunk.next_offset == log.of().end_offset == 3
    assert log.statistics == SinkStatistics(read_chunks=1, read_batches=2, read_bytes=sum(map(len, batches)))


async def test_read_yields_messages_of_old_formats_as_batches(log: Log) -> None:
    rows: list[Row] = [(NOW, b"a", b"1"), (NOW + 1, None, None), (NOW + 2, b"b", b"")]
    messages = [
        plain_set(rows[:1], 0),
        wrapper(plain_set(rows, 1), 1, GZIP, 3, NOW + 2),
        wrapper(plain_set(rows, 0, 4), 0, LZ4, 6),
        bytes(make_batch([b"new"], 7)),
    ]
    log.partition.follow(0, NotLeaderOrFollower("another broker leads"))
    log.partition.append_as_follower(bytearray(b"".join(messages)))
    log.partition.advance_high_watermark(8)
    (chunk,) = await chunks_of(log.of(), 2)
    found = [record for each in chunk.batches for record in iter_records(each.data, each.header)]
    assert [(each.offset, each.timestamp, each.key, each.value) for each in found[:-1]] == [
        *[(offset, *row) for offset, row in enumerate(rows, 1)],
        *[(offset, -1, *row[1:]) for offset, row in enumerate(rows, 4)],
    ]
    assert [(each.header.base_offset, each.header.codec) for each in chunk.batches] == [
        (1, 1),
        (4, 3),
        (7, 0),
    ]
    assert all(verify_crc(each.data, each.header) for each in chunk.batches)
    (chunk,) = await chunks_of(log.of(), 0, 3)
    assert [each.header.next_offset for each in chunk.batches] == [1, 4]


async def test_read_from_the_middle_of_a_batch_yields_the_whole_batch(log: Log) -> None:
    log.append(b"a", b"b", b"c")
    (chunk,) = await chunks_of(log.of(), 1)
    assert (chunk.batches[0].header.base_offset, values_in([chunk])) == (0, b"bc")


async def test_read_until_an_offset_ends_with_the_batch_that_holds_it(log: Log) -> None:
    log.append(b"a")
    log.append(b"b", b"c")
    log.append(b"d")
    assert values_in(await chunks_of(log.of(), 0, 1)) == b"a"
    chunks = await chunks_of(log.of(), 0, 2)
    assert (values_in(chunks), chunks[-1].next_offset) == (b"abc", 3)
    assert await chunks_of(log.of(), 2, 2) == []
    assert await chunks_of(log.of(), 4) == []


async def test_read_yields_chunks_of_max_bytes_and_at_least_one_batch(log: Log) -> None:
    for letter in b"abcdef":
        log.append(bytes([letter]) * 100)
    size = len(make_batch([b"x" * 100]))
    for most, batches in ((1, 1), (size, 1), (2 * size, 2), (4 * size + 1, 4), (1 << 20, 6)):
        chunks = await chunks_of(log.of(), max_bytes=most)
        assert max(len(chunk.batches) for chunk in chunks) == batches
        assert len(values_in(chunks)) == 600
    with pytest.raises(ValueError, match="max_bytes is 0"):
        log.of().read(0, max_bytes=0)


async def test_read_ends_where_the_log_ended_when_it_began(log: Log) -> None:
    log.append(b"a")
    reading = log.of().read(0)
    log.append(b"b")
    assert values_in([chunk async for chunk in reading]) == b"a"


async def test_read_committed_leaves_out_aborted_transactions_and_markers(log: Log) -> None:
    log.begin(1, b"A")
    log.begin(2, b"C")
    log.append(b"p")
    log.begin(1, b"B", sequence=1)
    log.end(1, commit=False)
    log.begin(1, b"D", sequence=2)
    log.end(2, commit=True)
    log.end(1, commit=True)
    log.begin(3, b"open")
    for most in (1, 150, 1 << 20):
        committed = await chunks_of(log.of(), max_bytes=most)
        assert values_in(committed) == b"CpD"
        assert committed[-1].next_offset == log.of().end_offset == 8
        everything = await chunks_of(log.of(Isolation.READ_UNCOMMITTED), max_bytes=most)
        assert values_in(everything) == b"ACpBDopen"
        assert not any(batch.header.is_control for chunk in everything for batch in chunk.batches)


async def test_read_of_aborted_records_alone_is_a_chunk_without_batches(log: Log) -> None:
    log.begin(1, b"A")
    log.end(1, commit=False)
    chunks = await chunks_of(log.of())
    assert [chunk.batches for chunk in chunks] == [[]] * len(chunks)
    assert chunks[-1].next_offset == 2


@pytest.mark.parametrize("seed", range(10))
async def test_read_agrees_with_a_model_of_transactions(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    async with a_log(choose.choice(STORAGES), tmp_path) as log:
        # Records in the order of the log: their value and the transaction, None outside of any.
        records: list[tuple[bytes, int | None]] = []
        running: dict[int, tuple[int, int]] = {}
        sequences = dict.fromkeys(range(1, 4), 0)
        aborted: set[int] = set()
        for number in range(60):
            value, producer = b"%d;" % number, choose.randint(0, 3)
            if producer == 0:
                log.append(value)
                records.append((value, None))
            elif producer in running and choose.random() < 0.4:
                transaction, _ = running.pop(producer)
                commit = choose.random() < 0.5
                if not commit:
                    aborted.add(transaction)
                log.end(producer, commit=commit)
            else:
                running.setdefault(producer, (number, number))
                log.begin(producer, value, sequence=sequences[producer])
                sequences[producer] += 1
                records.append((value, running[producer][0]))
        for producer in running:
            log.end(producer, commit=True)
        left = b"".join(value for value, transaction in records if transaction not in aborted)
        for most in (1, 300, 1 << 20):
            assert values_in(await chunks_of(log.of(), max_bytes=most)) == left
        # From any offset on it is the end of that.
        for offset in range(0, log.of().end_offset, 7):
            assert left.endswith(values_in(await chunks_of(log.of(), offset, max_bytes=200)))


async def test_gaps_of_compaction_are_no_loss(tmp_path: Path) -> None:
    async with a_log("file", tmp_path, **{"cleanup.policy": "compact", "segment.ms": "1"}) as log:
        for number in range(10):
            key = b"k" if 2 <= number < 8 else b"%d" % number
            log.partition.append_nowait(
                make_batch([b"%d" % number], keys=[key], timestamps=log.broker.clock() + 10 * number)
            )
        await log.partition.roll()
        done, failed = await log_cleanup_of(log.broker).rewrite_now((), lambda *_: None)
        assert (len(done), failed) == (1, [])
        for most in (1, 1 << 20):
            assert values_in(await chunks_of(log.of(), max_bytes=most)) == b"01789"
        assert values_in(await chunks_of(log.of(), 4)) == b"789"
        (chunk,) = await chunks_of(log.of(), 2, 5)
        assert chunk == CommittedChunk(2, 5, [])


async def test_an_offset_below_the_log_start_is_reported_with_the_log_start(log: Log) -> None:
    for _ in range(5):
        log.append(b"x")
    log.partition.raise_log_start(3)
    with pytest.raises(
        OffsetBelowLogStart, match=r"t-0: records from offset 1 on .* log starts at 3"
    ) as found:
        await chunks_of(log.of(), 1)
    assert found.value.log_start_offset == 3
    assert values_in(await chunks_of(log.of(), 3)) == b"xx"


async def test_records_that_are_deleted_during_a_read_are_reported(log: Log) -> None:
    for _ in range(5):
        log.append(b"x")
    reading = log.of().read(0, max_bytes=1)
    await reading.__anext__()
    log.partition.raise_log_start(4)
    with pytest.raises(OffsetBelowLogStart):
        await reading.__anext__()


async def test_records_that_are_deleted_while_they_are_read_are_reported(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        log.append(b"x")
    read = UnifiedLog.read

    def read_too_late(partition: UnifiedLog, *args: Any, **more: Any) -> Any:
        partition.raise_log_start(4)
        return read(partition, *args, **more)

    monkeypatch.setattr(UnifiedLog, "read", read_too_late)
    with pytest.raises(OffsetBelowLogStart, match="the log starts at 4"):
        await chunks_of(log.of())


async def test_bytes_without_a_batch_are_damaged(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(b"x")
    monkeypatch.setattr(committed_log, "region_bytes", lambda _: bytes(10))
    with pytest.raises(CorruptBatch, match="t-0: there is no whole batch that holds offset 0 or a later one"):
        await chunks_of(log.of())


async def test_an_offset_above_what_is_committed_is_refused(log: Log) -> None:
    log.append(b"x")
    with pytest.raises(OffsetOutOfRange, match="t-0: offset 2 is above 1, where what is committed ends"):
        await chunks_of(log.of(), 2)


async def test_a_deleted_topic_cannot_be_read(log: Log) -> None:
    log.append(b"x")
    read = log.of()
    await log.broker.topics.delete("t")
    with pytest.raises(UnknownTopicOrPartition, match="t-0 is gone"):
        await chunks_of(read)


async def test_damaged_bytes_are_reported_with_their_partition(tmp_path: Path) -> None:
    async with a_log("file", tmp_path) as log:
        log.append(b"x" * 100)
        (file,) = (tmp_path / "data/t-0").glob("*.log")
        with file.open("r+b") as stream:
            stream.seek(100)
            stream.write(b"y")
        with pytest.raises(CorruptBatch, match="t-0: the CRC of the batch at offset 0 is wrong"):
            await chunks_of(log.of())


async def readers_of(log: Log, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that read the log's first chunk."""
    threads: list[str] = []
    read = region_bytes

    def noting(region: Any) -> Any:
        threads.append("loop" if threading.current_thread() is threading.main_thread() else "thread")
        return read(region)

    monkeypatch.setattr(committed_log, "region_bytes", noting)
    await chunks_of(log.of())
    return threads


async def test_what_is_in_memory_and_small_is_read_on_the_loop(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.append(b"x")
    assert set(await readers_of(log, monkeypatch)) == {"loop"}


async def test_what_is_large_is_read_in_a_thread(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.append(b"x" * (committed_log.BYTES_ON_THE_LOOP + 1))
    assert set(await readers_of(log, monkeypatch)) == {"thread"}


async def test_what_is_not_in_memory_is_read_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_log("file", tmp_path) as log:
        log.append(b"x")
        found = log.partition.read(0, 1, Isolation.READ_COMMITTED)
        monkeypatch.setattr(type(found.regions[0].file), "resident", lambda *_: False)  # type: ignore[union-attr]
        assert set(await readers_of(log, monkeypatch)) == {"thread"}


async def test_delivered_is_the_lag_of_the_statistics(log: Log) -> None:
    read = log.of()
    offsets = [read.delivered_offset]
    read.delivered(7)
    assert [*offsets, read.delivered_offset] == [None, 7]
    assert (read.topic_id, str(read.topic_partition)) == (log.partition.topic_id, "t-0")
