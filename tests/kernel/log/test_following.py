"""Followers and truncation: the leader's batches as they are, its high watermark, truncating to its log."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import get_ident

import pytest
import trio

from tests.kernel.log.parts import (
    batch_of,
    changed,
    content,
    follow,
    new_store,
    offsets_in,
    open_partition,
    sent,
)
from tests.kernel.log.test_append_marker import aborted, ends, write
from tests.kernel.records.message_sets import GZIP, plain_set, wrapper
from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import BrokerError, CorruptBatch, InvalidRecord, OffsetOutOfRange
from tidelog.kernel.log import AppendWaiter, Isolation, UnifiedLog
from tidelog.kernel.log.snapshots import snapshot_offsets
from tidelog.kernel.records.batch import BatchHeader
from tidelog.kernel.testing import make_batch

UNCOMMITTED = Isolation.READ_UNCOMMITTED
SMALL_SEGMENTS = TopicConfig({"segment.bytes": 400})
END = 10
TIME = 1_500_000_000_000


def leader(config: TopicConfig | None = None) -> UnifiedLog:
    """A log with transactions of two producers, several epochs and a gap that compaction might leave."""
    partition = open_partition(new_store(config), config)
    partition.append_nowait(batch_of(3))
    write(partition, 1, 0, 2)
    partition.leader_epoch = 4
    write(partition, 2, 0)
    partition.append_marker(1, 0, 7, commit=False)
    partition.leader_epoch = 5
    write(partition, 2, 1)
    partition.append_marker(2, 0, 7, commit=True)
    write(partition, 1, 2)
    return partition


def all_of(partition: UnifiedLog) -> bytes:
    """Every batch of a log."""
    return content(partition.read(0, 1 << 30, UNCOMMITTED)) if partition.high_watermark else b""


def state(partition: UnifiedLog) -> tuple[object, ...]:
    """What is known of a log."""
    entries = {
        producer_id: (
            entry.epoch,
            list(entry.batches)[-1:],
            entry.current_txn_first_offset,
            entry.coordinator_epoch,
        )
        for producer_id, entry in partition.producers.entries.items()
    }
    return entries, partition.epochs.entries(), aborted(partition), partition.log_end_offset


@pytest.mark.parametrize("config", [TopicConfig(), SMALL_SEGMENTS])
def test_follower_append_copies_the_log_and_the_state_of_the_leader(config: TopicConfig) -> None:
    leading = leader(config)
    following = open_partition(new_store(config), config)
    following.append_as_follower(bytearray(all_of(leading)))
    assert state(following) == state(leading)
    assert following.leader_epoch == 5
    assert ends(following) == (0, 0, END)
    for offset in range(END + 1):
        following.advance_high_watermark(offset)
        assert following.high_watermark == offset
    following.advance_high_watermark(4)
    following.advance_high_watermark(400)
    assert ends(following) == ends(leading)
    assert all_of(following) == all_of(leading)


def test_follower_append_keeps_messages_of_old_formats_as_they_are() -> None:
    messages = [
        plain_set([(TIME, b"key", b"value")], 0, 3),
        wrapper(plain_set([(TIME, b"key", b"value")] * 2, 1), 1, GZIP, 5, TIME),
        bytes(make_batch([b"new"], 6)),
        plain_set([(TIME, None, None)], 0, 7),
    ]
    following = open_partition()
    follow(following)
    following.append_as_follower(bytearray(b"".join(messages[:-1]) + messages[-1][:-1]))
    assert following.log_end_offset == 7
    following.append_as_follower(bytearray(messages[-1]))
    following.advance_high_watermark(8)
    assert ends(following) == (8, 8, 8)
    assert all_of(following) == b"".join(messages)
    assert [header.base_offset for header in following.store.headers(4)] == [5, 6, 7]
    found = following.offset_for_timestamp(TIME)
    assert found is not None
    assert found[:2] == (TIME, 4)
    wrong = bytearray(plain_set([(TIME, b"key", b"value")], 1, 8))
    wrong[-1] ^= 1
    with pytest.raises(CorruptBatch, match="the CRC of the leader's batch at offset 8 is wrong"):
        following.append_as_follower(wrong)
    with pytest.raises(InvalidRecord, match="offset 7 is not at 8"):
        following.append_as_follower(bytearray(messages[-1]))


def test_a_segment_that_begins_with_a_compressed_message_begins_with_the_first_offset_in_it() -> None:
    config = TopicConfig({"segment.bytes": 200})
    following = open_partition(new_store(config), config)
    follow(following)
    for first in (0, 2, 4):
        inner = plain_set([(TIME, b"key", bytes(range(70)))] * 2, 1)
        following.append_as_follower(bytearray(wrapper(inner, 1, GZIP, first + 1, TIME)))
    following.advance_high_watermark(6)
    assert [segment.base_offset for segment in following.store.segments()] == [0, 2, 4]
    assert [next(following.store.headers(offset)).last_offset for offset in range(6)] == [1, 1, 3, 3, 5, 5]


def test_follower_last_stable_offset_waits_until_the_marker_is_committed() -> None:
    following = open_partition()
    following.append_as_follower(bytearray(all_of(leader())))
    stable: list[int] = []
    for offset in range(1, END + 1):
        following.advance_high_watermark(offset)
        stable.append(following.last_stable_offset)
    # 1's data is at 3 and its marker at 6; 2's first at 5, its marker at 8; nothing is decided behind 9.
    assert stable == [1, 2, 3, 3, 3, 3, 5, 5, 9, 9]


def test_follower_last_stable_offset_waits_for_a_marker_with_no_transaction_open() -> None:
    leading = open_partition()
    write(leading, 1, 0, 2)
    leading.append_marker(1, 0, 0, commit=True)
    following = open_partition()
    following.append_as_follower(bytearray(all_of(leading)))
    stable: list[int] = []
    for offset in range(1, 4):
        following.advance_high_watermark(offset)
        stable.append(following.last_stable_offset)
    assert stable == [0, 0, 3]


def test_load_keeps_last_stable_offset_at_or_above_the_log_start() -> None:
    store = new_store()
    partition = open_partition(store)
    write(partition, 1, 0, 3)
    partition.append_nowait(batch_of(2))
    store.raise_log_start(2)
    assert ends(open_partition(store)) == (2, 5, 5)


async def test_follower_high_watermark_is_moved_by_nothing_but_the_leader() -> None:
    following = open_partition()
    follow(following)
    following.commit.durable_offset = 0
    following.append_as_follower(batch_of(3))
    await following.flush()
    assert (following.has_unflushed, following.high_watermark) == (False, 0)


def test_follower_append_leaves_an_incomplete_batch_for_the_next_fetch() -> None:
    leading = leader()
    data = all_of(leading)
    following = open_partition()
    while following.log_end_offset < leading.log_end_offset:
        found = content(leading.read(following.log_end_offset, 200, UNCOMMITTED))
        following.append_as_follower(bytearray(found))
    following.advance_high_watermark(100)
    assert all_of(following) == data


def test_follower_append_keeps_the_gaps_of_a_compacted_log() -> None:
    following = open_partition()
    following.append_as_follower(make_batch(base_offset=5, leader_epoch=2))
    following.append_as_follower(make_batch([], 10, last_offset_delta=4, leader_epoch=2))
    assert following.log_end_offset == 15
    assert following.epochs.entries() == [(2, 5)]


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (make_batch(base_offset=0), InvalidRecord),
        (make_batch(base_offset=1)[:-1] + b"?", CorruptBatch),
        (changed(make_batch(base_offset=1), last_offset_delta=-1), CorruptBatch),
        (make_batch(base_offset=1)[:8] + b"\0\0\0\1" + make_batch()[12:], CorruptBatch),
        (make_batch(base_offset=1)[:16] + b"\7" + make_batch()[17:], CorruptBatch),
    ],
    ids=["offsets do not grow", "wrong CRC", "negative delta", "impossible length", "unknown magic"],
)
def test_follower_append_appends_nothing_if_one_batch_is_invalid(
    second: bytearray, error: type[BrokerError]
) -> None:
    following = open_partition()
    with pytest.raises(error):
        following.append_as_follower(make_batch() + second)
    assert following.log_end_offset == 0


def test_follower_append_refuses_what_is_in_the_log_already() -> None:
    following = open_partition()
    following.append_as_follower(make_batch(base_offset=0))
    with pytest.raises(InvalidRecord, match="is not at 1"):
        following.append_as_follower(make_batch(base_offset=0))


def test_advance_high_watermark_wakes_waiters() -> None:
    following, woken = open_partition(), list[int]()
    following.add_waiter(AppendWaiter(1, partial(woken.append, 1)))
    following.append_as_follower(batch_of(2))
    assert woken == []
    following.advance_high_watermark(2)
    assert woken == [1]


@for_each("config", [TopicConfig(), SMALL_SEGMENTS])
@for_each("offset", range(END))
def test_truncate_to_leaves_a_log_as_if_the_rest_had_never_come(config: TopicConfig, offset: int) -> None:
    leading = leader(config)
    data = all_of(leading)
    trio.run(leading.truncate_to, offset)
    end = leading.log_end_offset
    assert end <= offset
    assert leading.high_watermark == end
    shorter = bytearray(all_of(leading))
    expected = open_partition(new_store(config), config)
    expected.append_as_follower(shorter)
    expected.advance_high_watermark(end)
    assert state(leading) == state(expected)
    assert ends(leading) == ends(expected)
    leading.append_as_follower(bytearray(data[len(shorter) :]))
    leading.advance_high_watermark(END)
    assert all_of(leading) == data
    assert max(snapshot_offsets(leading.store.side_files()), default=0) <= leading.log_end_offset


def test_truncate_to_an_offset_behind_the_end_changes_nothing() -> None:
    leading = leader()
    before = state(leading)
    trio.run(leading.truncate_to, END)
    trio.run(leading.truncate_to, 1000)
    assert state(leading) == before


def test_truncate_to_holds_readers_back_before_anything_is_dropped() -> None:
    leading = leader()
    seen: list[tuple[int, int, int]] = []
    truncate = leading.store.truncate_to

    def noted(offset: int) -> None:
        seen.append(ends(leading))
        truncate(offset)

    leading.store.truncate_to = noted  # type: ignore[method-assign]
    trio.run(leading.truncate_to, 5)
    # The transaction that began at 3 is undecided again, which nobody knows before producers are back.
    assert seen == [(0, 5, 5)]
    assert ends(leading) == (3, 5, 5)


class ThreadsOfWatcher:
    """A watcher that notes the threads which notify it."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def moved(self, uncommitted_bytes: int, committed_bytes: int) -> None:
        self.seen.append(get_ident())

    def abandon(self) -> None:
        self.seen.append(get_ident())


async def test_truncate_to_notifies_watchers_on_the_event_loop_alone() -> None:
    leading = leader()
    truncate, watcher, threads = leading.store.truncate_to, ThreadsOfWatcher(), list[int]()

    def noted(offset: int) -> None:
        threads.append(get_ident())
        truncate(offset)

    leading.store.truncate_to = noted  # type: ignore[method-assign]
    leading.add_watcher(watcher)
    await leading.truncate_to(5)
    assert get_ident() not in threads
    assert len(watcher.seen) > 1
    assert {*watcher.seen} == {get_ident()}


async def test_truncate_to_is_done_to_its_end_when_it_is_cancelled() -> None:
    leading = leader()
    with trio.CancelScope() as scope:
        scope.cancel()
        await leading.truncate_to(5)
    assert ends(leading) == (3, 5, 5)


async def test_truncate_to_shows_nothing_that_a_flush_makes_durable_meanwhile() -> None:
    leading = leader()
    truncate, seen = leading.store.truncate_to, list[tuple[int, int, int]]()

    def flushed(offset: int) -> None:
        trio.from_thread.run_sync(leading.commit._ended, END)  # pyright: ignore[reportPrivateUsage]
        seen.append(ends(leading))
        truncate(offset)

    leading.store.truncate_to = flushed  # type: ignore[method-assign]
    await leading.truncate_to(5)
    assert [bounds[1:] for bounds in seen] == [(5, 5)]
    assert leading.commit.durable_offset == 5


def test_truncate_to_an_offset_below_the_log_start_begins_there() -> None:
    partition = open_partition()
    for _ in range(10):
        partition.append_nowait(batch_of(1))
    partition.raise_log_start(7)
    trio.run(partition.truncate_to, 3)
    assert (partition.log_start_offset, partition.log_end_offset) == (3, 3)
    write(partition, 1, 0)
    partition.append_nowait(batch_of(5))
    assert ends(partition) == (3, 9, 9)


async def test_truncate_to_makes_what_replaces_durable_records_not_durable() -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(5))
    await partition.flush()
    await partition.truncate_to(0)
    partition.append_nowait(batch_of(2))
    assert (partition.commit.durable_offset, partition.has_unflushed) == (0, True)


def test_a_follower_reads_from_the_newest_snapshot_below_its_high_watermark() -> None:
    before = follower_of(all_of(leader()), SMALL_SEGMENTS, 8)
    before.close()
    assert snapshot_offsets(before.store.side_files()) == [7, END]
    before.store.checkpointed_high_watermark = 8  # type: ignore[misc]
    begun: list[int] = []
    headers = before.store.headers

    def noted(from_offset: int) -> Iterator[BatchHeader]:
        begun.append(from_offset)
        return headers(from_offset)

    before.store.headers = noted  # type: ignore[method-assign]
    open_partition(before.store, SMALL_SEGMENTS, follows=True)
    assert begun == [7]


def test_truncate_to_restores_producers_from_the_newest_snapshot_that_is_left() -> None:
    partition = open_partition(new_store(SMALL_SEGMENTS), SMALL_SEGMENTS)
    for sequence in range(20):
        partition.append_nowait(sent(1, 0, sequence))
    trio.run(partition.truncate_to, 11)
    assert partition.producers.entries[1].last_sequence == 10
    assert partition.append_nowait(sent(1, 0, 11)).base_offset == 11


def test_raise_log_start() -> None:
    partition = leader(SMALL_SEGMENTS)
    partition.leader_epoch = 6
    with pytest.raises(OffsetOutOfRange, match="high watermark is 10"):
        partition.raise_log_start(END + 1)
    partition.raise_log_start(7)
    partition.raise_log_start(3)
    assert partition.log_start_offset == 7
    assert partition.epochs.entries() == [(5, 7)]
    before_start = [offset for offset in snapshot_offsets(partition.store.side_files()) if offset < 7]
    assert len(before_start) <= 1
    assert offsets_in(partition.read(7, 1000, UNCOMMITTED)) == [7, 8, 9]


def test_raise_log_start_is_bounded_by_the_high_watermark() -> None:
    following = open_partition()
    following.append_as_follower(batch_of(5))
    following.advance_high_watermark(3)
    with pytest.raises(OffsetOutOfRange, match="high watermark is 3"):
        following.raise_log_start(4)
    following.raise_log_start(3)
    assert ends(following) == (3, 3, 5)


def test_raise_log_start_refuses_an_offset_below_zero() -> None:
    partition = open_partition()
    partition.raise_log_start(0)
    with pytest.raises(OffsetOutOfRange, match="cannot begin at -1"):
        partition.raise_log_start(-1)


def test_raise_log_start_frees_readers_of_transactions_below_it() -> None:
    partition = open_partition()
    write(partition, 1, 0, 3)
    partition.append_nowait(batch_of(2))
    assert ends(partition) == (0, 5, 5)
    partition.raise_log_start(4)
    assert ends(partition) == (4, 5, 5)
    partition.append_marker(1, 0, 0, commit=False)
    assert ends(partition) == (6, 6, 6)


# Its start


def follower_of(data: bytes, config: TopicConfig, high_watermark: int) -> UnifiedLog:
    """One that has all of the leader's log, and was told so much of what is committed."""
    following = open_partition(new_store(config), config, follows=True)
    following.append_as_follower(bytearray(data))
    following.advance_high_watermark(high_watermark)
    return following


@for_each("config", [TopicConfig(), SMALL_SEGMENTS])
@for_each("clean_start", [True, False])
@for_each("committed", [*range(END + 1), END + 5])
def test_a_follower_starts_with_the_high_watermark_of_the_checkpoint(
    config: TopicConfig, clean_start: bool, committed: int
) -> None:
    """Also committed readers see what they saw before, though snapshots know no ended transactions."""
    before = follower_of(all_of(leader()), config, committed)
    store = before.store
    if clean_start:
        before.close()
    store.checkpointed_high_watermark = committed  # type: ignore[misc]
    after = open_partition(store, config, clean_start=clean_start, follows=True)
    assert ends(after) == ends(before)
    assert after.high_watermark == min(committed, END)
    assert aborted(after) == aborted(before)
    assert (after.leader_epoch, after.epochs.entries()) == (5, before.epochs.entries())
    after.advance_high_watermark(END)
    assert ends(after) == (9, END, END)


def test_a_followers_high_watermark_is_not_below_its_log_start() -> None:
    store = follower_of(all_of(leader()), TopicConfig(), END).store
    store.raise_log_start(4)
    store.checkpointed_high_watermark = 2  # type: ignore[misc]
    assert open_partition(store, follows=True).high_watermark == 4


@for_each("checkpointed", [0, 4, END, END + 5])
@for_each("clean_start", [True, False])
def test_load_of_a_leader_sets_the_high_watermark_to_the_log_end(
    checkpointed: int, clean_start: bool
) -> None:
    store = leader().store
    store.checkpointed_high_watermark = checkpointed  # type: ignore[misc]
    assert open_partition(store, clean_start=clean_start).high_watermark == END


def test_truncate_to_keeps_what_ended_above_the_high_watermark_undecided() -> None:
    following = follower_of(all_of(leader()), SMALL_SEGMENTS, 4)
    assert max(snapshot_offsets(following.store.side_files())) > 6
    stable = following.last_stable_offset
    trio.run(following.truncate_to, END - 1)
    assert (following.last_stable_offset, following.high_watermark) == (stable, 4)
