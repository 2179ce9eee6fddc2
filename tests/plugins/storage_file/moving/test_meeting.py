"""A move meets drafts, replacements, deletions and truncations, before each of its steps."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.deadlines import DEADLINE_S
from tests.plugins.storage_file.moving.two_directories import CONFIG, PARTITION, TwoDirectories, join
from tidelog.kernel.errors import LogBusy
from tidelog.kernel.records.batch import parse_header
from tidelog.kernel.seams.storage import AbortedTransaction, SegmentDraft, StaleDraft
from tidelog.kernel.testing.storage.harness import append, append_many, base_offsets, read_all
from tidelog.plugins.storage_file.log.operations import Operation
from tidelog.plugins.storage_file.moving.catch_up import StartOver
from tidelog.plugins.storage_file.moving.replica_move import ReplicaMove
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.testing import FailingDisk
from tidelog.plugins.storage_file.testing.interposing import Interposer

EPOCHS = "leader-epoch-checkpoint"

Step = Callable[[TwoDirectories, ReplicaMove], object]


def copy_some(place: TwoDirectories, move: ReplicaMove) -> None:
    del place
    move.copy_some()


def make_durable(place: TwoDirectories, move: ReplicaMove) -> None:
    del place
    join(move)
    move.make_durable()


STEPS: Sequence[tuple[str, Step]] = [
    ("copied", copy_some),
    ("joined", lambda _, move: join(move)),
    ("durable", make_durable),
]
STEP_NAMES = [name for name, _ in STEPS]


def steps_to(place: TwoDirectories, name: str) -> ReplicaMove:
    """A move of which the steps up to this one are done."""
    move = place.move()
    dict(STEPS)[name](place, move)
    return move


def finish(place: TwoDirectories, move: ReplicaMove, step: str) -> None:
    """What the driver of moves does after that step, to the end."""
    is_durable = step == "durable"
    while PARTITION not in move.target.stores:
        try:
            if not is_durable:
                join(move)
                move.make_durable()
            place.decide(move)
            assert move.swap()
            move.remove_source()
        except StartOver:
            is_durable = False
            move.end()
            move.remove_copy()


def draft_of(store: FilePartitionStore, base_offset: int, batches: Sequence[bytes]) -> SegmentDraft:
    draft = store.draft_segment(base_offset)
    for batch in batches:
        header = parse_header(batch)
        draft.append(batch, header.base_offset, header.last_offset, header.max_timestamp)
    return draft


def reopened(place: TwoDirectories) -> FilePartitionStore:
    place.close()
    return place.open()


async def test_a_partition_moves_there_and_back(place: TwoDirectories) -> None:
    batches = append_many(place.store, 30, 100)
    for name in "ba":
        place.take_all_steps(place.move())
        assert place.store.directory == f"{place.root}/{name}/t-0"
        assert place.names("?/t-0") == [f"{name}/t-0"]
        batches.append(append(place.store, 100))
        assert read_all(place.store) == b"".join(batches)
    assert read_all(reopened(place)) == b"".join(batches)
    assert place.errors == []


@pytest.mark.parametrize("step", STEP_NAMES)
async def test_draft_segment_is_refused_during_a_replica_move_and_older_drafts_are_stale(
    place: TwoDirectories, step: str
) -> None:
    store = place.store
    batches = append_many(store, 30, 100)
    draft = draft_of(store, 0, [])
    move = steps_to(place, step)
    with pytest.raises(LogBusy, match="no draft while it has: move"):
        store.draft_segment(0)
    with pytest.raises(StaleDraft, match="move"):
        draft.append(batches[0], 0, 0, 0)
    with pytest.raises(StaleDraft, match="move"):
        store.replace_segments([draft], [0])
    finish(place, move, step)
    with pytest.raises(StaleDraft, match="move"):
        store.replace_segments([draft], [0])
    draft.discard()
    assert read_all(store) == b"".join(batches)
    bases = [view.base_offset for view in store.segments()]
    store.replace_segments([draft_of(store, 0, [])], bases[:1])
    assert read_all(reopened(place)) == b"".join(batches[bases[1] :])


async def test_replace_segments_before_a_replica_move_stays_in_effect(place: TwoDirectories) -> None:
    batches = append_many(place.store, 30, 100)
    bases = [view.base_offset for view in place.store.segments()]
    place.store.replace_segments([draft_of(place.store, bases[1], [])], bases[1:3])
    left = [*batches[: bases[1]], *batches[bases[3] :]]
    place.take_all_steps(place.move())
    assert read_all(place.store) == b"".join(left)
    assert read_all(reopened(place)) == b"".join(left)


async def test_draft_segment_is_allowed_again_after_a_cancelled_replica_move(place: TwoDirectories) -> None:
    append_many(place.store, 30, 100)
    move = steps_to(place, "durable")
    copy = move.copy
    assert copy is not None
    place.give_up(move)
    append(place.store, 100)
    assert copy.log_end_offset == 30, "it is kept equal to the log no longer"
    place.store.replace_segments([draft_of(place.store, 0, [])], [0])
    assert place.names("b/*-future") == []


@pytest.mark.parametrize("step", STEP_NAMES)
async def test_delete_segments_before_during_a_replica_move_stays_in_effect(
    place: TwoDirectories, step: str
) -> None:
    store = place.store
    # The segments of the copy are larger, so that none of them begins where the log does.
    store.configure(CONFIG | {"segment.bytes": 500})
    batches = append_many(store, 30, 100)
    move = steps_to(place, step)
    first = store.segments()[5].base_offset
    assert len(store.delete_segments_before(first)) == 5
    finish(place, move, step)
    assert (store.log_start_offset, store.log_end_offset) == (first, 30)
    assert read_all(store) == b"".join(batches[first:])
    # And the disk has room again at once, for the copy has no readers that a delay would be for.
    assert store.segments()[0].base_offset < first < store.segments()[0].next_offset
    assert place.names("?/*/*.deleted") == []
    # Although no checkpoint was written since the swap.
    place.abandon()
    store = place.open()
    assert store.log_start_offset == first
    assert read_all(store) == b"".join(batches[first:])


@pytest.mark.parametrize("step", STEP_NAMES)
async def test_raise_log_start_during_a_replica_move_stays_in_effect(
    place: TwoDirectories, step: str
) -> None:
    store = place.store
    append_many(store, 30, 100)
    move = steps_to(place, step)
    store.raise_log_start(8)
    finish(place, move, step)
    assert store.log_start_offset == 8
    assert reopened(place).log_start_offset == 8


@pytest.mark.parametrize("step", STEP_NAMES)
@pytest.mark.parametrize("offset", [0, 7, 29])
async def test_truncate_to_during_a_replica_move_stays_in_effect(
    place: TwoDirectories, step: str, offset: int
) -> None:
    store = place.store
    batches = append_many(store, 30, 100)[:offset]
    move = steps_to(place, step)
    store.truncate_to(offset)
    # More than there was, so that its length tells nothing of a copy that has the old end.
    batches += append_many(store, 40, 90)
    finish(place, move, step)
    assert read_all(store) == b"".join(batches)
    assert read_all(reopened(place)) == b"".join(batches)


@pytest.mark.parametrize("change", ["delete", "truncate"])
async def test_changes_wait_from_the_decision_to_the_swap(place: TwoDirectories, change: str) -> None:
    store = place.store
    batches = append_many(store, 30, 100)
    move = steps_to(place, "durable")
    place.decide(move)
    job = {"delete": store.delete_segments_before, "truncate": store.truncate_to}[change]
    changing = threading.Thread(target=job, args=(12,), daemon=True)
    changing.start()
    changing.join(0.05)
    assert changing.is_alive()
    assert read_all(store) == b"".join(batches)
    assert move.swap()
    changing.join(DEADLINE_S)
    left = batches[:12] if change == "truncate" else batches[store.segments()[0].base_offset :]
    assert len(left) < 30
    move.remove_source()
    assert read_all(reopened(place)) == b"".join(left)


async def test_a_swap_waits_for_a_deletion_under_way(place: TwoDirectories) -> None:
    store = place.store
    append_many(store, 30, 100)
    move = steps_to(place, "durable")
    with store.log.segments.removing():
        deleting = threading.Thread(target=store.delete_segments_before, args=(12,), daemon=True)
        deleting.start()
        while Operation.DELETE not in store.operations.under_way:
            deleting.join(0.001)
        swapping = threading.Thread(target=place.decide, args=(move,), daemon=True)
        swapping.start()
        swapping.join(0.05)
        assert swapping.is_alive()
    deleting.join(DEADLINE_S)
    swapping.join(DEADLINE_S)
    assert move.swap()
    assert store.log_start_offset > 0


async def test_begin_swap_refuses_a_future_replica_that_is_behind_the_log(place: TwoDirectories) -> None:
    store = place.store
    append_many(store, 30, 100)
    move = steps_to(place, "durable")
    future = store.future_replica
    assert future is not None
    future.behind = True
    append(store, 100)
    with pytest.raises(Exception, match="is behind the log"):
        place.decide(move)
    place.give_up(move)
    assert store.log_end_offset == 31
    assert base_offsets(store.headers(0)) == list(range(31))


async def test_is_in_sync_is_false_after_an_append_that_the_future_replica_missed(
    place: TwoDirectories,
) -> None:
    store = place.store
    batches = append_many(store, 10, 100)
    move = steps_to(place, "durable")
    place.decide(move)
    failing = FailingDisk()
    failing.refuse(errno.ENOSPC, {"pwrite", "open_file"}, paths=lambda path: "-future" in path)
    with failing.installed():
        batches += append_many(store, 10, 100)
    assert failing.refused == 1
    assert not move.is_in_sync
    # The process ends before the metadata log has the old directory again.
    place.abandon()
    store = place.open()
    assert read_all(store) == b"".join(batches)
    assert store.directory == f"{place.root}/a/t-0"


def aborted_of(store: FilePartitionStore) -> list[int]:
    found = store.aborted_transactions(store.log_start_offset, store.log_end_offset, wait=True)
    return [entry.last_offset for entry in found]


def abort(store: FilePartitionStore, offset: int) -> None:
    store.add_aborted(AbortedTransaction(7, offset - 1, offset, offset))


async def test_catch_up_copies_an_aborted_transaction_added_after_its_marker_was_copied(
    place: TwoDirectories,
) -> None:
    store = place.store
    append_many(store, 10, 100)
    abort(store, 4)
    abort(store, 8)
    move = place.move()
    while move.offset_lag:
        move.copy_some()
    # The marker at 9 was in the log already when the thread copied, its entry was not.
    abort(store, 9)
    append_many(store, 10, 100)
    abort(store, 15)
    move.copy_some()
    append(store, 100)
    abort(store, 19)
    place.take_all_steps(move)
    assert aborted_of(store) == [4, 8, 9, 15, 19]
    assert aborted_of(reopened(place)) == [4, 8, 9, 15, 19]


async def test_a_copy_that_is_continued_has_all_aborted_transactions(place: TwoDirectories) -> None:
    append_many(place.store, 20, 100)
    for offset in (3, 10, 18):
        abort(place.store, offset)
    move = place.move()
    move.copy_some()
    append_many(place.store, 10, 100)
    abort(place.store, 25)
    place.store.flush()
    place.abandon()
    store = place.open()
    for offset in (3, 10, 18, 25):
        # After a crash the kernel finds those that are missing in the log.
        abort(store, offset)
    place.take_all_steps(place.move())
    assert aborted_of(store) == [3, 10, 18, 25]
    assert aborted_of(reopened(place)) == [3, 10, 18, 25]


@pytest.mark.parametrize("change", ["replace", "truncate", "cut", "delete", "none"])
async def test_is_prefix_allows_a_copy_to_continue_only_if_the_log_has_its_batches(
    place: TwoDirectories, change: str
) -> None:
    batches = append_many(place.store, 30, 100)
    move = place.move()
    move.copy_some()
    append_many(place.store, 3, 100)
    content = read_all(place.store)
    reopened(place)
    store = place.store
    bases = [view.base_offset for view in store.segments()]
    if change == "replace":
        # The last batch, and with it the end of the copy, is the same.
        store.replace_segments([draft_of(store, bases[1], [])], bases[1:3])
        content = read_all(store)
    elif change == "truncate":
        store.truncate_to(12)
        content = b"".join([*batches[:12], *append_many(store, 30, 90)])
    elif change == "cut":
        # Now the copy is longer, and what is left of the log is a part of it.
        store.truncate_to(22)
        content = b"".join(batches[:22])
    elif change == "delete":
        store.delete_segments_before(bases[3])
        content = b"".join(batches[bases[3] :]) + content[len(b"".join(batches)) :]
    move = place.move()
    copied = move.copy_some()
    assert (copied < 1000) == (change in ("none", "cut", "delete"))
    place.take_all_steps(move)
    assert read_all(store) == content
    assert read_all(reopened(place)) == content


async def test_copy_side_files_to_a_continued_copy_deletes_those_that_the_log_lacks(
    place: TwoDirectories,
) -> None:
    append_many(place.store, 30, 100)
    for offset in (10, 20):
        place.store.write_side_file(f"{offset:020d}.snapshot", b"producers")
    move = steps_to(place, "durable")
    assert move.copy is not None
    place.abandon()
    store = place.open()
    store.delete_side_file(f"{20:020d}.snapshot")
    place.take_all_steps(place.move())
    assert store.side_files() == [f"{10:020d}.snapshot"]
    assert reopened(place).side_files() == [f"{10:020d}.snapshot"]


class HeldRename(Interposer):
    """Holds up the call that gives the epochs of the log, not of its copy, their name."""

    one_at_a_time = False

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.released = threading.Event(), threading.Event()

    def call(self, name: str, perform: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Wait for the release."""
        if name == "rename" and str(arguments[1]).endswith(f"{PARTITION}/{EPOCHS}"):
            self.begun.set()
            assert self.released.wait(DEADLINE_S)
        return perform(*arguments)


async def test_side_file_that_is_being_written_when_a_move_joins_is_in_the_copy(
    place: TwoDirectories,
) -> None:
    append_many(place.store, 30, 100)
    held = HeldRename()
    with held.installed():
        writing = threading.Thread(target=place.store.write_side_file, args=(EPOCHS, b"epochs"), daemon=True)
        writing.start()
        assert held.begun.wait(DEADLINE_S)
        move = steps_to(place, "joined")
        copying = threading.Thread(target=move.make_durable, daemon=True)
        copying.start()
        copying.join(0.1)
        held.released.set()
        writing.join()
        copying.join()
        finish(place, move, "durable")
    assert place.store.read_side_file(EPOCHS) == b"epochs"
    assert reopened(place).read_side_file(EPOCHS) == b"epochs"


@pytest.mark.parametrize("step", STEP_NAMES)
async def test_retire_aborts_the_replica_move_of_a_log(place: TwoDirectories, step: str) -> None:
    append_many(place.store, 30, 100)
    move = steps_to(place, step)
    place.store.retire()
    with pytest.raises(StartOver):
        place.take_all_steps(move)
    move.end()
    with pytest.raises(LogBusy, match="close"):
        move.copy_some()
    assert len(place.store.delete_segments_before(20)) == 0
