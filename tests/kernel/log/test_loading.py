"""Coming back: producers and leader epochs after clean and unclean stops, with side files lost or broken."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import OutOfOrderSequence
from tidelog.kernel.log import Isolation
from tidelog.kernel.log.snapshots import snapshot_name, snapshot_offsets
from tidelog.kernel.records.batch import NO_PRODUCER_ID, BatchHeader
from tidelog.kernel.testing import make_batch
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

from .parts import (
    all_batches,
    batch_of,
    lost_background,
    new_store,
    newest_batches,
    offsets_in,
    open_partition,
    sent,
    used_partition,
)

CHECKPOINT = "leader-epoch-checkpoint"
SMALL_SEGMENTS = TopicConfig({"segment.bytes": 400})


def lose_snapshots(store: MemoryPartitionStore) -> None:
    """As if none had been written."""
    for name in store.side_files():
        if name.endswith(".snapshot"):
            store.delete_side_file(name)


def test_load_of_a_new_partition_starts_empty_at_leader_epoch_0() -> None:
    for clean_start in (True, False):
        partition = open_partition(clean_start=clean_start)
        assert (partition.leader_epoch, partition.log_end_offset) == (0, 0)
        assert partition.producers.entries == {}
        assert partition.epochs.entries() == []
        assert list(partition.store.side_files()) == []


def test_load_after_a_clean_stop_knows_the_newest_batch_of_each_producer() -> None:
    store = new_store()
    before = used_partition(store)
    before.close()
    after = open_partition(store)
    assert newest_batches(after.producers.entries) == newest_batches(before.producers.entries)
    assert after.epochs.entries() == before.epochs.entries() == [(0, 0)]
    assert (after.log_end_offset, after.high_watermark, after.last_stable_offset) == (24, 24, 24)
    assert after.leader_epoch == 0
    assert after.append_nowait(sent(1, 0, 6)).base_offset == 18
    assert after.append_nowait(sent(1, 0, 7)).base_offset == 24


def test_load_after_a_kill_restores_all_producer_batches_of_the_log() -> None:
    store = new_store()
    before = used_partition(store)
    after = open_partition(store, clean_start=False)
    assert all_batches(after.producers.entries) == all_batches(before.producers.entries)
    assert after.log_end_offset == before.log_end_offset


async def test_load_knows_producers_from_batches_below_the_log_start() -> None:
    """DeleteRecords leaves a part of a segment, whose snapshot is older than what it deletes."""
    store = new_store()
    partition = open_partition(store)
    partition.append_nowait(sent(7, 0, 0))
    assert await partition.roll()
    for sequence in range(1, 5):
        partition.append_nowait(sent(7, 0, sequence))
    partition.delete_records_before(5)
    after = open_partition(store, clean_start=False)
    assert (after.log_start_offset, store.first_segment_offset) == (5, 1)
    assert after.append_nowait(sent(7, 0, 4)).base_offset == 4
    assert after.append_nowait(sent(7, 0, 5)).base_offset == 5


async def test_load_uses_no_snapshot_from_before_the_oldest_segment() -> None:
    """A loss of power takes a snapshot that was not durable; the batches that it stood for are deleted."""
    store = new_store()
    partition = open_partition(store)
    for sequence in range(2):
        partition.append_nowait(sent(7, 0, sequence))
        assert await partition.roll()
    await partition.delete_segments_before(2)
    store.write_side_file(snapshot_name(1), store.read_side_file(snapshot_name(2)) or b"")
    store.delete_side_file(snapshot_name(2))
    after = open_partition(store, clean_start=False)
    assert not after.producers.entries
    assert after.append_nowait(sent(7, 0, 5)).base_offset == 2


def test_load_removes_snapshots_beyond_a_truncated_log() -> None:
    store = new_store(SMALL_SEGMENTS)
    used_partition(store, SMALL_SEGMENTS).close()
    offsets = snapshot_offsets(store.side_files())
    store.truncate_to(offsets[1])
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert snapshot_offsets(store.side_files()) == offsets[:2]
    assert after.log_end_offset == offsets[1]


histories = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from(["batch", "batch", "new epoch", "kill"])),
    min_size=1,
    max_size=25,
)


@given(histories, st.floats(0, 1), st.booleans())
def test_load_after_any_loss_restores_the_state_of_the_remaining_batches(
    history: list[tuple[int, int, str]], keep: float, with_snapshots: bool
) -> None:
    store = new_store(SMALL_SEGMENTS)
    partition = open_partition(store, SMALL_SEGMENTS)
    producers: dict[int, tuple[int, int]] = dict.fromkeys(range(4), (0, 0))
    for producer_id, count, step in history:
        if step == "kill":
            partition = open_partition(store, SMALL_SEGMENTS, clean_start=False)
            continue
        epoch, sequence = producers[producer_id]
        if step == "new epoch":
            epoch, sequence = epoch + 1, 0
        partition.append_nowait(sent(producer_id, epoch, sequence, count))
        producers[producer_id] = (epoch, sequence + count)
    store.truncate_to(int(partition.log_end_offset * keep))
    left = list(store.headers(0))

    expected = open_partition(new_store())
    for header in left:
        if header.producer_id != NO_PRODUCER_ID:
            expected.producers.update(header, header.base_offset)
        expected.epochs.assign(header.leader_epoch, header.base_offset)
    if not with_snapshots:
        lose_snapshots(store)
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert newest_batches(after.producers.entries) == newest_batches(expected.producers.entries)
    if not with_snapshots:
        assert all_batches(after.producers.entries) == all_batches(expected.producers.entries)
    for offset in range(after.log_end_offset):
        assert after.epochs.epoch_for(offset) == expected.epochs.epoch_for(offset)
    assert all(header.leader_epoch < after.leader_epoch for header in left)


# Leader epochs


def test_load_after_a_kill_raises_and_checkpoints_the_leader_epoch() -> None:
    store = new_store()
    used_partition(store)
    after = open_partition(store, clean_start=False)
    assert after.leader_epoch == 1
    assert after.epochs.entries() == [(0, 0), (1, 24)]
    assert store.read_side_file(CHECKPOINT) == b"0\n2\n0 0\n1 24\n"


def test_load_with_a_clean_start_keeps_the_leader_epoch() -> None:
    store = new_store()
    used_partition(store)
    epochs = [open_partition(store, clean_start=False).leader_epoch for _ in range(3)]
    assert epochs == [1, 2, 3]
    open_partition(store).close()
    assert open_partition(store).leader_epoch == 3


def test_load_keeps_a_leader_epoch_without_records_in_the_lineage() -> None:
    store = new_store()
    used_partition(store)
    open_partition(store, clean_start=False).close()
    after = open_partition(store)
    assert after.epochs.entries() == [(0, 0), (1, 24)]
    assert after.epochs.end_offset_for(0, 24) == (0, 24)


def test_load_drops_leader_epochs_of_lost_records_from_the_lineage() -> None:
    """All but one that begins at the log's end: the broker may have led in it without writing anything."""
    store = new_store()
    used_partition(store)
    store.write_side_file(CHECKPOINT, b"0\n4\n0 0\n3 24\n4 25\n6 26\n")
    after = open_partition(store)
    assert after.epochs.entries() == [(0, 0), (3, 24)]
    # Clients may have seen the newest of them all the same.
    assert after.leader_epoch == 6


def test_load_never_lowers_the_leader_epoch() -> None:
    """A client that has seen an epoch takes no metadata of an older one and would wait for ever."""
    store = new_store()
    partition = used_partition(store)
    seen = partition.leader_epoch
    for clean_start, appends in ((False, 0), (True, 0), (False, 1), (False, 0), (True, 1), (True, 0)):
        partition = open_partition(store, clean_start=clean_start)
        assert partition.leader_epoch >= seen + (0 if clean_start else 1)
        seen = partition.leader_epoch
        for _ in range(appends):
            partition.append_nowait(batch_of(1))
        if clean_start:
            partition.close()


def test_load_learns_an_epoch_missing_in_the_checkpoint_from_the_log() -> None:
    """The crash came between the first batch of an epoch and its checkpoint."""
    store = new_store()
    used_partition(store)
    checkpoint = store.read_side_file(CHECKPOINT)
    partition = open_partition(store, clean_start=False)
    partition.append_nowait(batch_of(1))
    assert checkpoint is not None
    store.write_side_file(CHECKPOINT, checkpoint)
    after = open_partition(store, clean_start=False)
    assert after.leader_epoch == 2
    assert after.epochs.entries() == [(0, 0), (1, 24), (2, 25)]


def test_load_after_lost_records_appends_under_a_new_leader_epoch() -> None:
    """Records 24 to 33 of epoch 1 are lost in a crash; what takes their place must not look the same."""
    store = new_store()
    used_partition(store)
    partition = open_partition(store, clean_start=False)
    partition.append_nowait(batch_of(10))
    lost = partition.leader_epoch
    store.truncate_to(24)
    after = open_partition(store, clean_start=False)
    after.append_nowait(batch_of(10))
    assert after.leader_epoch > lost
    assert after.epochs.epoch_for(24) == after.leader_epoch
    assert after.epochs.end_offset_for(lost, after.log_end_offset) == (0, 24)


@pytest.mark.parametrize("wanted", [0, 1, 5])
def test_load_raises_a_leader_epoch_that_only_the_metadata_store_knows(wanted: int) -> None:
    """Nothing of it is in the log or in the checkpoint, but clients may have seen records of it."""
    store = new_store()
    used_partition(store)
    partition = open_partition(store, clean_start=False, leader_epoch=wanted)
    assert partition.leader_epoch == wanted + 1
    assert partition.epochs.entries() == [(0, 0), (wanted + 1, 24)]


def test_load_raises_the_leader_epoch_of_a_log_that_lost_all_records() -> None:
    store = new_store()
    open_partition(store).append_nowait(batch_of(10))
    store.truncate_to(0)
    assert open_partition(store, clean_start=False).leader_epoch == 1


@pytest.mark.parametrize("clean_start", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"0\n2\n0 0\n"])
def test_load_without_a_valid_checkpoint_learns_epochs_from_the_log(
    content: bytes | None, clean_start: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(SMALL_SEGMENTS)
    partition = open_partition(store, SMALL_SEGMENTS)
    for epoch in (0, 0, 2, 2, 5):
        partition.leader_epoch = epoch
        partition.append_nowait(batch_of(10))
    if content is None:
        store.delete_side_file(CHECKPOINT)
    else:
        store.write_side_file(CHECKPOINT, content)
    with caplog.at_level(logging.WARNING):
        after = open_partition(store, SMALL_SEGMENTS, clean_start=clean_start)
    assert after.epochs.entries()[:3] == [(0, 0), (2, 20), (5, 40)]
    assert after.leader_epoch == (5 if clean_start else 6)
    assert ("leader-epoch-checkpoint is malformed" in caplog.text) == (content is not None)


def test_load_truncates_the_leader_epoch_lineage_to_the_log_start() -> None:
    store = new_store()
    partition = open_partition(store)
    for epoch in (0, 1, 2):
        partition.leader_epoch = epoch
        partition.append_nowait(batch_of(10))
    store.raise_log_start(15)
    assert open_partition(store).epochs.entries() == [(1, 15), (2, 20)]


def test_load_completes_a_lineage_that_begins_after_the_log_start() -> None:
    """DeleteRecords wrote the lineage down, and a kill came before it did the log start."""
    store = new_store(SMALL_SEGMENTS)
    partition = open_partition(store, SMALL_SEGMENTS)
    for epoch in (0, 1, 1, 3):
        partition.leader_epoch = epoch
        partition.append_nowait(batch_of(10))
    partition.close()
    read: list[int] = []
    headers = store.headers

    def counted(from_offset: int) -> Iterator[BatchHeader]:
        for header in headers(from_offset):
            read.append(header.base_offset)
            yield header

    store.headers = counted  # type: ignore[method-assign]
    lineages = {
        "1 15\n3 30": [(0, 0), (1, 10), (3, 30)],
        "3 35": [(0, 0), (1, 10), (3, 30)],
        "0 5\n1 10\n3 30": [(0, 0), (1, 10), (3, 30)],
        "4 40": [(0, 0), (1, 10), (3, 30), (4, 40)],
    }
    for written, expected in lineages.items():
        store.write_side_file(CHECKPOINT, f"0\n{written.count(chr(10)) + 1}\n{written}\n".encode())
        read.clear()
        assert open_partition(store, SMALL_SEGMENTS).epochs.entries() == expected
        known_from = int(written.split()[1])
        assert [offset for offset in read if offset < known_from] == list(range(0, known_from, 10))
        assert len(read) <= known_from // 10 + 2
    store.raise_log_start(12)
    store.write_side_file(CHECKPOINT, b"0\n1\n3 30\n")
    assert open_partition(store, SMALL_SEGMENTS).epochs.entries() == [(1, 12), (3, 30)]


def test_load_after_a_kill_makes_append_stamp_the_new_leader_epoch() -> None:
    store = new_store()
    used_partition(store)
    partition = open_partition(store, clean_start=False)
    partition.append_nowait(batch_of(1))
    assert [header.leader_epoch for header in store.headers(20)][-1] == 1
    assert offsets_in(partition.read(24, 1000, Isolation.READ_UNCOMMITTED)) == [24]


# A batch that compaction left, and one that a broken disk left


def test_load_restores_producers_of_batches_emptied_by_compaction() -> None:
    store = new_store()
    batch = make_batch([], producer_id=9, producer_epoch=1, base_sequence=5, last_offset_delta=4)
    store.append_batch(batch, 0, 4, -1)
    partition = open_partition(store, clean_start=False)
    assert partition.append_nowait(sent(9, 1, 5, 5)).base_offset == 0
    assert partition.append_nowait(sent(9, 1, 10)).base_offset == 5
    with pytest.raises(OutOfOrderSequence):
        partition.append_nowait(sent(9, 1, 12))


def test_load_without_side_files_restores_producers_and_epochs() -> None:
    store = new_store(SMALL_SEGMENTS)
    partition = open_partition(store, SMALL_SEGMENTS, in_thread=lost_background)
    for sequence in range(20):
        partition.append_nowait(sent(1, 0, sequence))
    assert list(store.side_files()) == []
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert all_batches(after.producers.entries) == all_batches(partition.producers.entries)
    assert after.epochs.entries() == [(0, 0), (1, 20)]
