"""The wall clock jumps: logs go on without a gap, and nothing waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.crash.core import Core, configure
from tests.crash.logs import batches_of
from tests.kernel.log.parts import open_partition
from tidelog.kernel.errors import InvalidTimestamp
from tidelog.kernel.maintenance import TimedFlush
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.testing import FakeClock, make_batch

SECOND, HOUR, DAY = 1000, 3_600_000, 86_400_000
JUMPS = st.sampled_from([-DAY, -HOUR, -SECOND, 0, 1, SECOND, HOUR, DAY, 400 * DAY])


@given(st.lists(st.tuples(JUMPS, st.booleans()), min_size=1, max_size=15))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
async def test_logs_go_on_whatever_the_clock_does(
    tmp_path_factory: pytest.TempPathFactory, stamps: str, history: list[tuple[int, bool]]
) -> None:
    clock = FakeClock()
    core = Core(tmp_path_factory.mktemp("clock"), clock)
    await core.open()
    topic = await core.create("orders", 1, message_timestamp_type=stamps, segment_ms="60000")
    (partition,) = topic.partitions
    times: list[int] = []
    for jump, crash in history:
        clock.advance(jump)
        partition.log.append_nowait(make_batch([b"x" * 200], timestamps=clock()))
        times.append(clock())
        core.tasks.run_jobs()
        if crash:
            core.abandon()
            await core.open()
            (partition,) = core.topics.get("orders").partitions
    assert partition.log.log_end_offset == len(history)
    assert [parse_header(batch).max_timestamp for batch in batches_of(partition.log.store)] == times
    for time in times:
        found = partition.log.offset_for_timestamp(time)
        assert found is not None
        assert found.offset == next(offset for offset, stamp in enumerate(times) if stamp >= time)
    await core.close()


async def test_a_clock_that_is_set_back_delays_a_flush_by_its_time_and_no_more(tmp_path: Path) -> None:
    clock = FakeClock()
    core = Core(tmp_path, clock)
    await core.open()
    topic = await core.create("orders", 1, flush_ms="5000")
    (partition,) = topic.partitions
    task = TimedFlush(core.topics, clock)
    partition.log.append_nowait(make_batch([b"x"], timestamps=clock()))
    await task.run()
    clock.advance(-HOUR)
    await task.run()
    unflushed = [partition.log.has_unflushed]
    clock.advance(5 * SECOND)
    await task.run()
    unflushed.append(partition.log.has_unflushed)
    assert unflushed == [True, False]
    await core.close()


async def test_a_broker_whose_clock_is_late_tells_so_and_recovers(tmp_path: Path) -> None:
    clock = FakeClock()
    core = Core(tmp_path, clock)
    await core.open()
    (partition,) = (await core.create("orders", 1)).partitions
    configure(partition.log, {"message.timestamp.after.max.ms": HOUR})
    sent = clock() + 1
    clock.advance(-DAY)
    with pytest.raises(InvalidTimestamp, match="timestamp 1700000000001 is not between"):
        partition.log.append_nowait(make_batch([b"x"], timestamps=sent))
    clock.advance(DAY)
    assert partition.log.append_nowait(make_batch([b"x"], timestamps=sent)).base_offset == 0
    await core.close()


@pytest.mark.parametrize("start_ms", [-1, 0, 1])
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
async def test_a_clock_that_was_never_set_is_a_time_like_any_other(
    tmp_path: Path, start_ms: int, stamps: str
) -> None:
    """A machine without a battery begins in 1970; -1 is also what stands for no timestamp in a batch."""
    clock = FakeClock(start_ms)
    core = Core(tmp_path, clock)
    await core.open()
    topic = await core.create("orders", 1, message_timestamp_type=stamps, segment_ms="60000")
    (partition,) = topic.partitions
    stamped = stamps == "LogAppendTime"
    for offset in range(3):
        result = partition.log.append_nowait(make_batch([b"x"], timestamps=clock()))
        assert (result.base_offset, result.log_append_time_ms) == (offset, clock() if stamped else -1)
        clock.advance(1)
    first_with_a_time = 1 if start_ms < 0 else 0
    for again in range(2):
        found = partition.log.offset_for_timestamp(0)
        assert found == (max(start_ms, 0), first_with_a_time, 0)
        assert partition.log.offset_of_max_timestamp() == (start_ms + 2, 2, 0)
        assert partition.log.offset_for_timestamp(start_ms + 3) is None
        if not again:
            core.abandon()
            await core.open()
            (partition,) = core.topics.get("orders").partitions
    await core.close()


@pytest.mark.parametrize("start_ms", [-6000, -1, 0])
async def test_a_flush_by_time_is_not_put_off_by_a_clock_at_zero(tmp_path: Path, start_ms: int) -> None:
    clock = FakeClock(start_ms)
    core = Core(tmp_path, clock)
    await core.open()
    (partition,) = (await core.create("orders", 1, flush_ms="5000")).partitions
    task = TimedFlush(core.topics, clock)
    partition.log.append_nowait(make_batch([b"x"], timestamps=clock()))
    unflushed: list[bool] = []
    for _ in range(6):
        await task.run()
        unflushed.append(partition.log.has_unflushed)
        clock.advance(SECOND)
    assert unflushed == [True] * 5 + [False]
    await core.close()


@pytest.mark.parametrize("now_ms", [-1, 0, 1])
async def test_producers_expire_by_a_clock_at_zero_as_by_any_other(now_ms: int) -> None:
    partition = open_partition(clock=FakeClock(now_ms))
    partition.append_nowait(
        make_batch([b"x"], timestamps=now_ms, producer_id=7, producer_epoch=0, base_sequence=0)
    )
    assert partition.producers.expire(now_ms) == 0
    partition = open_partition(partition.store, clean_start=False)
    assert partition.producers.expire(now_ms) == 0
    assert partition.producers.expire(now_ms + 1) == 1
