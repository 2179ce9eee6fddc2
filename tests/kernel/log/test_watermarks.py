"""Watermarks: what bounds readers, and waking them when there is enough or nothing to wait for."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.log import AppendWaiter, Isolation, UnifiedLog
from tidelog.kernel.log.transactions import LogTransactions
from tidelog.kernel.log.watermarks import Watermarks
from tidelog.kernel.testing import make_batch

from .parts import batch_of, follow, open_partition

BATCH_BYTES = len(batch_of(1))


class Waiting:
    """Someone who waits for bytes at some partitions."""

    def __init__(self, missing_bytes: int, *partitions: UnifiedLog) -> None:
        self.woken = 0
        self.waiter = AppendWaiter(missing_bytes, self._wake)
        for partition in partitions:
            partition.add_waiter(self.waiter)

    def _wake(self) -> None:
        self.woken += 1


def bounds(watermarks: Watermarks) -> tuple[int, int, int, int]:
    """Offsets in the order that has to hold."""
    return (
        watermarks.log_start_offset,
        watermarks.last_stable_offset,
        watermarks.high_watermark,
        watermarks.log_end_offset,
    )


def woken_at(watermarks: Watermarks, missing_bytes: int, *, committed: bool) -> list[int]:
    """High watermarks at which a waiter for so many bytes is woken."""
    woken: list[int] = []
    waiter = AppendWaiter(missing_bytes, lambda: woken.append(watermarks.high_watermark))
    watermarks.add_waiter(waiter, committed=committed)
    return woken


def with_an_open_transaction(first_offset: int) -> LogTransactions:
    transactions = LogTransactions()
    transactions.begin(first_offset, 1)
    return transactions


@for_each("committed", [True, False])
def test_watermarks_begin_with_all_of_the_log_and_nothing_unseen(committed: bool) -> None:
    watermarks = Watermarks(3, 10, LogTransactions())
    assert bounds(watermarks) == (3, 10, 10, 10)
    enough, too_little = (woken_at(watermarks, missing, committed=committed) for missing in (100, 101))
    watermarks.unseen_bytes += 100
    watermarks.advance(11)
    assert (enough, too_little) == ([11], [])


@given(
    log_start=st.integers(0, 20),
    committed=st.integers(0, 20),
    log_end=st.integers(0, 20),
    first_offset=st.none() | st.integers(0, 20),
)
def test_reset_keeps_the_bounds_in_order_whatever_transaction_is_open(
    log_start: int, committed: int, log_end: int, first_offset: int | None
) -> None:
    start, high_watermark, end = sorted((log_start, committed, log_end))
    transactions = LogTransactions() if first_offset is None else with_an_open_transaction(first_offset)
    watermarks = Watermarks(50, 60, transactions)
    watermarks.reset(start, high_watermark, end)
    readable = high_watermark if first_offset is None else first_offset
    assert bounds(watermarks) == (start, sorted((start, readable, high_watermark))[1], high_watermark, end)


@for_each("committed", [True, False])
def test_reset_counts_no_bytes_from_before_it(committed: bool) -> None:
    transactions = with_an_open_transaction(0)
    watermarks = Watermarks(0, 0, transactions)
    watermarks.unseen_bytes = 500
    watermarks.advance(1)
    watermarks.unseen_bytes = 500
    transactions.restore([])
    watermarks.reset(0, 0, 0)
    too_little = woken_at(watermarks, 101, committed=committed)
    watermarks.unseen_bytes += 100
    watermarks.advance(1)
    assert too_little == []


def test_raise_log_start_into_a_transaction_wakes_its_committed_readers() -> None:
    """Also after a start, which does not know how many bytes the transaction has."""
    watermarks = Watermarks(0, 0, with_an_open_transaction(2))
    watermarks.reset(0, 9, 10)
    committed, uncommitted = (woken_at(watermarks, 1, committed=committed) for committed in (True, False))
    watermarks.raise_log_start(2)
    assert (bounds(watermarks), committed) == ((2, 2, 9, 10), [])
    watermarks.raise_log_start(5)
    assert (bounds(watermarks), committed, uncommitted) == ((5, 5, 9, 10), [9], [])


@for_each(("high_watermark", "stable"), [(9, 3), (4, 3), (3, 3), (1, 1)])
def test_hold_back_shows_nothing_to_committed_readers_until_reset(high_watermark: int, stable: int) -> None:
    watermarks = Watermarks(3, 10, LogTransactions())
    watermarks.hold_back(high_watermark)
    assert (watermarks.last_stable_offset, watermarks.high_watermark) == (stable, high_watermark)
    watermarks.reset(3, 10, 10)
    assert bounds(watermarks) == (3, 10, 10, 10)


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=10),
    missing=st.integers(1, 600),
)
def test_add_waiter_is_woken_when_min_bytes_were_appended(sizes: list[int], missing: int) -> None:
    woken: list[int] = []
    waiter = AppendWaiter(missing, lambda: woken.append(1))
    total = 0
    for size in sizes:
        waiter.grew(size)
        total += size
        assert bool(woken) == (total >= missing)


@pytest.mark.parametrize(("missing", "batches"), [(1, 1), (BATCH_BYTES, 1), (BATCH_BYTES + 1, 2), (1000, 14)])
def test_add_waiter_counts_the_bytes_of_whole_batches(missing: int, batches: int) -> None:
    partition = open_partition()
    waiting = Waiting(missing, partition)
    for _ in range(batches):
        assert waiting.woken == 0
        partition.append_nowait(batch_of(1))
    assert waiting.woken == 1


def test_add_waiter_at_several_partitions_counts_all_bytes() -> None:
    one, other = open_partition(), open_partition()
    waiting = Waiting(2 * BATCH_BYTES, one, other)
    one.append_nowait(batch_of(1))
    assert waiting.woken == 0
    other.append_nowait(batch_of(1))
    assert waiting.woken == 1


def test_add_waiter_wakes_all_waiters() -> None:
    partition = open_partition()
    waiting = [Waiting(1, partition) for _ in range(5)]
    partition.append_nowait(batch_of(1))
    assert [waiter.woken for waiter in waiting] == [1] * 5


def test_remove_waiter_is_not_woken() -> None:
    partition = open_partition()
    waiting = Waiting(1, partition)
    partition.remove_waiter(waiting.waiter)
    partition.remove_waiter(waiting.waiter)
    partition.append_nowait(batch_of(1))
    partition.take_offline()
    assert waiting.woken == 0


@pytest.mark.parametrize("end", [UnifiedLog.take_offline, UnifiedLog.abandon_waiters])
def test_abandon_waiters_and_take_offline_wake_waiters(end: object) -> None:
    partition = open_partition()
    waiting = Waiting(10**9, partition)
    assert callable(end)
    end(partition)
    assert waiting.woken == 1


def test_remove_waiter_while_it_is_woken() -> None:
    partition = open_partition()
    order: list[str] = []

    def wake_first() -> None:
        order.append("first")
        partition.remove_waiter(first)
        partition.remove_waiter(second)

    first = AppendWaiter(1, wake_first)
    second = AppendWaiter(1, lambda: order.append("second"))
    partition.add_waiter(first)
    partition.add_waiter(second)
    partition.append_nowait(batch_of(1))
    partition.append_nowait(batch_of(1))
    assert order.count("first") == 1


def test_append_of_a_duplicate_wakes_no_waiter() -> None:
    from .parts import sent

    partition = open_partition()
    partition.append_nowait(sent(1, 0, 0))
    waiting = Waiting(1, partition)
    partition.append_nowait(sent(1, 0, 0))
    assert waiting.woken == 0


def test_advance_high_watermark_in_two_steps_wakes_at_each_of_them() -> None:
    """A flush, or a leader, commits a part of what was appended; the rest wakes who waits for it."""
    partition = open_partition()
    follow(partition)
    for _ in range(3):
        partition.append_as_follower(make_batch([b"value"], base_offset=partition.log_end_offset))
    for committed in (1, 2, 3):
        waiting = Waiting(BATCH_BYTES, partition)
        partition.advance_high_watermark(committed)
        assert waiting.woken == 1
        partition.remove_waiter(waiting.waiter)
    waiting = Waiting(BATCH_BYTES + 1, partition)
    partition.append_as_follower(make_batch([b"value"], base_offset=3))
    partition.advance_high_watermark(4)
    assert waiting.woken == 0


def test_advance_high_watermark_that_changes_nothing_wakes_no_waiter() -> None:
    partition = open_partition()
    follow(partition)
    waiting = Waiting(1, partition)
    for offset in range(3):
        partition.append_as_follower(make_batch([b"value"], base_offset=offset))
    partition.advance_high_watermark(0)
    assert waiting.woken == 0
    partition.remove_waiter(waiting.waiter)
    waiting = Waiting(3 * BATCH_BYTES, partition)
    partition.advance_high_watermark(3)
    assert waiting.woken == 1
    partition.advance_high_watermark(1)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)


def test_add_waiter_does_not_count_bytes_truncated_before_they_were_committed() -> None:
    partition = open_partition()
    partition.append_as_follower(make_batch([b"value"] * 50))
    trio.run(partition.truncate_to, 0)
    waiting = Waiting(BATCH_BYTES + 1, partition)
    partition.append_as_follower(make_batch([b"value"]))
    partition.advance_high_watermark(1)
    assert waiting.woken == 0


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(("missing", "woken_by"), [(BATCH_BYTES, 1), (BATCH_BYTES + 1, 2)])
def test_add_waiter_of_read_committed_counts_the_same_bytes_after_a_transaction(
    ended: bool, missing: int, woken_by: int
) -> None:
    partition = open_partition()
    if ended:
        batch = make_batch(
            [b"value"] * 9, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True
        )
        partition.append_nowait(batch, in_transaction=True)
        partition.append_marker(1, 0, 0, commit=True)
    woken: list[int] = []
    waiter = AppendWaiter(missing, lambda: woken.append(1))
    partition.add_waiter(waiter, Isolation.READ_COMMITTED)
    for _ in range(woken_by - 1):
        partition.append_nowait(batch_of(1))
        assert not woken
    partition.append_nowait(batch_of(1))
    assert woken


class Watching:
    """A watcher that notes all."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int] | None] = []

    def moved(self, uncommitted_bytes: int, committed_bytes: int) -> None:
        self.seen.append((uncommitted_bytes, committed_bytes))

    def abandon(self) -> None:
        self.seen.append(None)

    def taken(self) -> list[tuple[int, int] | None]:
        """What was noted since the last call."""
        seen, self.seen = self.seen, []
        return seen


def test_add_watcher_notifies_of_what_readers_of_either_isolation_see() -> None:
    partition = open_partition()
    watching = Watching()
    partition.add_watcher(watching)
    partition.append_nowait(batch_of(1))
    assert watching.taken() == [(BATCH_BYTES, BATCH_BYTES)]
    batch = make_batch([b"v"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    size = len(batch)
    partition.append_nowait(batch, in_transaction=True)
    assert watching.taken() == [(size, 0)]
    partition.append_marker(1, 0, 0, commit=True)
    ((committed, marker_bytes), *_) = sorted(each for each in watching.taken() if each)
    assert (committed, marker_bytes) == (0, size + partition.store.size_bytes - BATCH_BYTES - size)


def test_add_watcher_notifies_of_each_change_until_it_is_removed() -> None:
    partition = open_partition()
    watching = Watching()
    partition.append_nowait(batch_of(3))
    partition.add_watcher(watching)
    partition.raise_log_start(1)
    assert watching.taken() == [(0, 0)]
    trio.run(partition.truncate_to, 2)
    assert set(watching.taken()) == {(0, 0)}
    partition.leader_epoch = 4
    assert watching.taken() == [(0, 0)]
    partition.abandon_waiters()
    partition.take_offline()
    assert watching.taken() == [None, None]
    partition.remove_watcher(watching)
    partition.remove_watcher(watching)
    partition.abandon_waiters()
    assert watching.taken() == []
