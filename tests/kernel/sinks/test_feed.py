"""The feed of a sink: partitions that come and go, and ranges that are committed, coalesced."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from types import FrameType

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.sinks.conftest import RunningSink, StartSink
from tests.kernel.sinks.walking import walk
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.sinks import Committed, PartitionAdded, PartitionRemoved, SinkChange
from tidelog.kernel.testing import make_batch


def short(changes: Sequence[SinkChange]) -> list[str]:
    """Changes as text: + and - for partitions that come and go, ranges as first..next."""
    shown: list[str] = []
    for change in changes:
        name = str(change.log.topic_partition)
        match change:
            case PartitionAdded():
                shown.append(f"+{name}")
            case PartitionRemoved(_, deleted):
                shown.append(f"-{name}" + ("" if deleted else " offline"))
            case Committed(_, first, following):
                shown.append(f"{name} {first}..{following}")
    return shown


def append(partition: UnifiedLog, records: int = 1) -> None:
    """A batch of so many records."""
    partition.append_nowait(make_batch([b"x"] * records))


async def is_quiet(sink: RunningSink) -> bool:
    """Whether the feed has nothing to report."""
    with trio.move_on_after(0.01) as waiting:
        await sink.feed.__anext__()
    return waiting.cancelled_caught


async def test_a_new_topic_is_reported_and_what_is_committed_in_it(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 2))
    assert short(await sink.changes()) == ["+t-0", "+t-1"]
    append(topic.partitions[1].log, 3)
    append(topic.partitions[0].log)
    assert short(await sink.changes()) == ["t-1 0..3", "t-0 0..1"]
    assert await is_quiet(sink)
    assert {str(name) for name in sink.feed.logs} == {"t-0", "t-1"}


async def test_appends_of_one_turn_are_one_range(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    assert short(await sink.changes()) == ["+t-0"]
    for _ in range(10):
        append(topic.partitions[0].log)
    assert short(await sink.changes()) == ["t-0 0..10"]


async def test_what_a_slow_sink_has_not_taken_becomes_one_range(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    (partition,) = topic.partitions
    for _ in range(5):
        append(partition.log)
        await trio.testing.wait_all_tasks_blocked()
    assert short(await sink.changes()) == ["+t-0", "t-0 0..5"]


async def test_an_append_costs_nothing_while_the_sink_is_behind(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    (partition,) = topic.partitions
    await sink.changes()
    assert len(partition.log.watermarks.committed_waiters) == 1
    append(partition.log)
    assert not partition.log.watermarks.committed_waiters


def calls_of(partition: UnifiedLog, batches: int) -> int:
    """How many functions of Python are called to append batches."""
    prepared = [make_batch([b"x"]) for _ in range(batches)]
    count = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    gc.disable()  # it may call functions of objects that other tests left behind
    sys.setprofile(profile)
    try:
        for batch in prepared:
            partition.append_nowait(batch)
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


async def test_the_calls_of_an_append(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    without = (await sink.broker.topics.create(TopicSpec("other", 1))).partitions[0]
    (partition,) = topic.partitions
    for each in (without, partition):
        calls_of(each.log, 1)
    plain = calls_of(without.log, 10)
    assert calls_of(partition.log, 10) == plain  # the sink has not taken the news of the first one
    await sink.changes()
    assert calls_of(partition.log, 10) - plain <= 7  # for ten appends of one turn together


async def test_topics_that_the_sink_does_not_receive_are_not_reported(sink_with: StartSink) -> None:
    async with sink_with({"topics": ["t", "__consumer_offsets"]}) as sink:
        for name in ("tt", "t", "__consumer_offsets"):
            await sink.broker.topics.ensure(name)
        added = {change.log.topic_partition.topic for change in await sink.changes()}
        assert added == {"t", "__consumer_offsets"}


async def test_internal_topics_match_no_pattern(sink_with: StartSink) -> None:
    async with sink_with({"topics.regex": ".*"}) as sink:
        for name in ("__consumer_offsets", "__mine", "t"):
            await sink.broker.topics.ensure(name)
        assert short(await sink.changes()) == ["+__mine-0", "+t-0"]


async def test_partitions_that_are_added_to_a_topic_are_reported(sink: RunningSink) -> None:
    await sink.broker.topics.create(TopicSpec("t", 1))
    assert short(await sink.changes()) == ["+t-0"]
    await sink.broker.topics.grow("t", 3)
    assert short(await sink.changes()) == ["+t-1", "+t-2"]


async def test_a_deleted_topic_is_reported_and_its_logs_are_gone(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    append(topic.partitions[0].log)
    await sink.changes()
    append(topic.partitions[0].log)
    await sink.broker.topics.delete("t")
    assert short(await sink.changes()) == ["-t-0"]
    assert sink.feed.logs == {}
    assert await is_quiet(sink)


async def test_a_topic_that_is_created_again_is_another_one(sink: RunningSink) -> None:
    await sink.broker.topics.create(TopicSpec("t", 1))
    (first,) = await sink.changes()
    await sink.broker.topics.delete("t")
    append((await sink.broker.topics.create(TopicSpec("t", 1))).partitions[0].log)
    changes = await sink.changes()
    assert short(changes) == ["-t-0", "+t-0", "t-0 0..1"]
    assert changes[0].log is first.log
    assert changes[1].log.topic_id != first.log.topic_id


async def test_a_topic_that_comes_and_goes_unseen_is_not_reported(sink: RunningSink) -> None:
    for _ in range(3):
        await sink.broker.topics.create(TopicSpec("t", 1))
        await sink.broker.topics.delete("t")
    await sink.broker.topics.create(TopicSpec("tt", 1))
    assert short(await sink.changes()) == ["+tt-0"]


async def test_a_partition_that_goes_offline_is_reported(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 2))
    await sink.changes()
    name = topic.partitions[0].topic_partition
    sink.broker._partitions_failed([name], "the disk is broken")  # pyright: ignore[reportPrivateUsage]
    assert short(await sink.changes()) == ["-t-0 offline"]
    assert [str(log) for log in sink.feed.logs] == ["t-1"]


async def test_a_partition_that_is_offline_is_not_added(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 2))
    topic.partitions[0].log.take_offline()
    sink.feed.close()  # type: ignore[attr-defined]  # pyright: ignore
    sink.feed.add_topic(topic)  # type: ignore[attr-defined]  # pyright: ignore
    assert short(await sink.changes()) == ["+t-1"]


async def test_a_range_ends_at_the_last_stable_offset(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    (partition,) = topic.partitions
    append(partition.log, 2)
    open_one = make_batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    partition.log.append_nowait(open_one, in_transaction=True)
    append(partition.log)
    changes = await sink.changes()
    assert short(changes) == ["+t-0", "t-0 0..2"]
    log = changes[0].log
    assert (log.end_offset, log.last_stable_offset, log.high_watermark) == (2, 2, 4)
    append(partition.log)
    assert await is_quiet(sink)
    partition.log.append_marker(5, 0, 0, commit=True)
    assert short(await sink.changes()) == ["t-0 2..6"]


async def test_a_range_ends_at_the_high_watermark_with_read_uncommitted(sink_with: StartSink) -> None:
    async with sink_with({"topics": "t", "isolation.level": "read_uncommitted"}) as sink:
        topic = await sink.broker.topics.create(TopicSpec("t", 1))
        open_one = make_batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
        topic.partitions[0].log.append_nowait(open_one, in_transaction=True)
        assert short(await sink.changes()) == ["+t-0", "t-0 0..1"]


async def test_a_log_start_that_is_raised_lets_go_of_a_transaction(sink: RunningSink) -> None:
    topic = await sink.broker.topics.create(TopicSpec("t", 1))
    (partition,) = topic.partitions
    open_one = make_batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    partition.log.append_nowait(open_one, in_transaction=True)
    append(partition.log)
    assert short(await sink.changes()) == ["+t-0"]
    partition.log.raise_log_start(1)
    assert short(await sink.changes()) == ["t-0 0..1"]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(["append", "take", "grow", "delete", "create", "turn"]), max_size=25))
def test_ranges_follow_each_other_whatever_happens(steps: list[str]) -> None:
    """Per log: added, ranges without gap or overlap up to the committed end, removed."""
    trio.run(walk, steps)


async def test_what_is_left_comes_before_the_end(sink_with: StartSink) -> None:
    async with sink_with() as sink:
        topic = await sink.broker.topics.create(TopicSpec("t", 1))
        append(topic.partitions[0].log)
        stopping = [sink.feed.stopping]
        sink.feed.stop()  # type: ignore[attr-defined]  # pyright: ignore
        assert [*stopping, sink.feed.stopping] == [False, True]
        append(topic.partitions[0].log)
        assert short(await sink.changes()) == ["+t-0", "t-0 0..2"]
        with pytest.raises(StopAsyncIteration):
            await sink.changes()
