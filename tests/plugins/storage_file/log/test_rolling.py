"""When a log goes on in a new segment."""

from __future__ import annotations

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness, offset_entries, time_entries
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append, append_many, read_all, read_bytes
from tidelog.plugins.storage_file.log_config import LogConfig, RollPolicy

HOUR_MS = 3_600_000
MAX_RELATIVE = 2**31 - 1


def bases(store: PartitionStore) -> list[int]:
    return [view.base_offset for view in store.segments()]


@pytest.mark.parametrize("age_ms", [HOUR_MS, HOUR_MS + 1])
async def test_roll_by_age_uses_the_clock_without_timestamps(
    harness: LogDirectoryHarness, age_ms: int
) -> None:
    store = await harness.open_store(segment_ms=HOUR_MS)
    append(store, timestamp=NO_TIMESTAMP)
    harness.clock.advance(age_ms)
    append(store, timestamp=NO_TIMESTAMP)
    assert bases(store) == ([0] if age_ms == HOUR_MS else [0, 1])


async def test_roll_by_age_after_a_restart(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_ms=HOUR_MS)
    append(store, timestamp=START_MS)
    append(store, timestamp=START_MS - 10)
    await harness.reopen()
    store = await harness.open_store(segment_ms=HOUR_MS)
    append(store, timestamp=START_MS + HOUR_MS)
    assert bases(store) == [0]
    append(store, timestamp=START_MS + HOUR_MS + 1)
    assert bases(store) == [0, 3]


async def test_roll_by_age_leaves_an_empty_segment(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_ms=HOUR_MS)
    harness.clock.advance(10 * HOUR_MS)
    append(store, timestamp=START_MS + 10 * HOUR_MS)
    assert bases(store) == [0]


def jitter_of(config: TopicConfig) -> int:
    """The jitter that a segment of a topic draws."""
    return RollPolicy.of(LogConfig.of(config)).jitter_ms


def test_roll_policy_draws_a_random_jitter() -> None:
    config = TopicConfig({"segment.ms": HOUR_MS, "segment.jitter.ms": HOUR_MS // 2})
    jitters = {jitter_of(config) for _ in range(200)}
    assert len(jitters) > 100
    assert all(0 <= jitter < HOUR_MS // 2 for jitter in jitters)
    assert jitter_of(config | {"segment.jitter.ms": 0}) == 0
    # Never more than the whole age, whatever the configuration says.
    assert jitter_of(config | {"segment.ms": 1, "segment.jitter.ms": HOUR_MS}) == 0


async def test_roll_by_a_full_offset_index(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_index_bytes=36, index_interval_bytes=0)
    # Without growing timestamps only the offset index fills: an entry for each batch but the first.
    for _ in range(12):
        append(store, 10, timestamp=START_MS)
    assert bases(store) == [0, 5, 10]
    await harness.tasks.wait_for_jobs()
    assert len(offset_entries(harness.partition_dir / "00000000000000000000.index")) == 4
    assert len(time_entries(harness.partition_dir / "00000000000000000000.timeindex")) == 1


async def test_roll_by_a_full_time_index_with_one_reserved_slot(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_index_bytes=40, index_interval_bytes=0)
    append_many(store, 7)
    assert bases(store) == [0, 3, 6]
    await harness.tasks.wait_for_jobs()
    assert len(time_entries(harness.partition_dir / "00000000000000000000.timeindex")) == 2
    # The largest timestamp that no regular entry has takes the slot that was kept.
    store.truncate_to(6)
    for timestamp in (START_MS, START_MS + 1, START_MS + 2):
        append(store, timestamp=timestamp)
    await harness.close()
    assert time_entries(harness.partition_dir / "00000000000000000006.timeindex") == [
        (START_MS + 1, 1),
        (START_MS + 2, 2),
    ]


@pytest.mark.parametrize("index_bytes", [4, 8, 12])
async def test_roll_happens_once_when_indexes_have_no_room_for_entries(
    harness: LogDirectoryHarness, index_bytes: int
) -> None:
    store = await harness.open_store(segment_index_bytes=index_bytes, index_interval_bytes=0)
    content = append_many(store, 5)
    assert bases(store) == [0, 1, 2, 3, 4]
    assert read_all(store) == b"".join(content)
    await harness.reopen()
    store = await harness.open_store(segment_index_bytes=index_bytes, index_interval_bytes=0)
    assert read_all(store) == b"".join(content)


async def test_roll_by_an_offset_that_does_not_fit_into_the_indexes(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(index_interval_bytes=0)
    content = append(store)
    content += append(store, gap=MAX_RELATIVE - 1)
    assert store.log_end_offset == MAX_RELATIVE + 1
    assert bases(store) == [0]
    content += append(store)
    content += append(store)
    assert bases(store) == [0, MAX_RELATIVE + 1]
    for again in (False, True):
        if again:
            await harness.reopen()
            store = await harness.open_store(index_interval_bytes=0)
        assert read_all(store) == content
        assert read_bytes(store, 5, max_bytes=1) == read_bytes(store, MAX_RELATIVE, max_bytes=1)


async def test_roll_leaves_an_empty_segment_that_is_too_far_behind(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store()
    batch = make_batch([b"far"], 2**40)
    assert store.append_batch(batch, 2**40, 2**40, START_MS)
    assert bases(store) == [0, 2**40]
    for again in (False, True):
        if again:
            await harness.reopen()
            store = await harness.open_store()
        assert read_bytes(store, 0) == bytes(batch)
        assert store.log_end_offset == 2**40 + 1


async def test_roll_makes_the_old_segment_durable_and_moves_the_recovery_point(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 6, 600)
    await harness.reopen()
    checkpoint = (harness.log_dir / "recovery-point-offset-checkpoint").read_text()
    assert checkpoint == "0\n1\ntopic 0 6\n"
    store = await harness.open_store(segment_bytes=1000)
    append_many(store, 3, 600)
    await harness.close()
    assert (harness.log_dir / "recovery-point-offset-checkpoint").read_text() == "0\n1\ntopic 0 9\n"


@pytest.mark.parametrize("interval", [0, 500, 1000, 5000])
async def test_append_adds_an_index_entry_every_index_interval_bytes(
    harness: LogDirectoryHarness, interval: int
) -> None:
    store = await harness.open_store(index_interval_bytes=interval)
    sizes = [len(batch) for batch in append_many(store, 40, 200)]
    expected, position, indexed = list[int](), 0, 0
    for size in sizes:
        if position - indexed > interval:
            expected.append(position)
            indexed = position
        position += size
    await harness.close()
    entries = offset_entries(harness.partition_dir / "00000000000000000000.index")
    assert [position for _, position in entries] == expected
    assert len(expected) < 40
