"""Producer state of a partition: its snapshots, and what comes back from them and from the log."""

from __future__ import annotations

import logging

import pytest

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.log.snapshots import snapshot_offsets
from tidelog.kernel.seams.storage import LogSlice

from .parts import (
    all_batches,
    batch_of,
    content,
    lost_background,
    new_store,
    newest_batches,
    open_partition,
    sent,
    used_partition,
)

SMALL_SEGMENTS = TopicConfig({"segment.bytes": 400})


@pytest.mark.parametrize("broken", [0, 1])
def test_load_snapshot_after_a_kill_starts_replay_at_the_newest_intact_snapshot(broken: int) -> None:
    store = new_store(SMALL_SEGMENTS)
    before = used_partition(store, SMALL_SEGMENTS)
    *_, second, newest_one = snapshot_offsets(store.side_files())
    snapshot = newest_one
    if broken:
        snapshot = second
        store.write_side_file(f"{newest_one:020d}.snapshot", b"broken")
    read_from: list[int] = []
    headers = store.headers

    def spied(from_offset: int) -> object:
        read_from.append(from_offset)
        return headers(from_offset)

    store.headers = spied  # type: ignore[method-assign, assignment]
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert read_from == [snapshot]
    assert newest_batches(after.producers.entries) == newest_batches(before.producers.entries)


def test_replay_reads_batch_contents_of_markers_only() -> None:
    store = new_store()
    before = used_partition(store)
    before.append_marker(2, 3, 0, commit=True)
    read: list[int] = []
    read_from = store.read_batches

    def noted(offset: int, max_bytes: int, limit_offset: int, *, wait: bool = False) -> LogSlice:
        read.append(offset)
        return read_from(offset, max_bytes, limit_offset, wait=wait)

    store.read_batches = noted  # type: ignore[method-assign]
    after = open_partition(store, clean_start=False)
    assert read == [24]
    assert all_batches(after.producers.entries) == all_batches(before.producers.entries)


def test_write_snapshot_at_a_clean_stop_writes_one_at_the_log_end() -> None:
    store = new_store()
    used_partition(store).close()
    assert snapshot_offsets(store.side_files()) == [24]


def test_write_snapshot_is_skipped_when_an_empty_log_is_closed() -> None:
    store = new_store()
    open_partition(store).close()
    assert list(store.side_files()) == []


@pytest.mark.parametrize("broken", [b"", b"\0" * 20, b"nonsense"])
def test_load_snapshot_drops_a_broken_snapshot_and_uses_the_one_before_it(
    broken: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store = new_store(SMALL_SEGMENTS)
    before = used_partition(store, SMALL_SEGMENTS)
    before.close()
    *others, last = snapshot_offsets(store.side_files())
    store.write_side_file(f"{last:020d}.snapshot", broken)
    with caplog.at_level(logging.WARNING):
        after = open_partition(store, SMALL_SEGMENTS)
    assert newest_batches(after.producers.entries) == newest_batches(before.producers.entries)
    assert snapshot_offsets(store.side_files()) == others
    assert f"flights-3: {last:020d}.snapshot is dropped" in caplog.text


def test_load_snapshot_with_all_snapshots_broken_replays_the_whole_log() -> None:
    store = new_store(SMALL_SEGMENTS)
    before = used_partition(store, SMALL_SEGMENTS)
    for name in store.side_files():
        if name.endswith(".snapshot"):
            store.write_side_file(name, b"broken")
    after = open_partition(store, SMALL_SEGMENTS)
    assert all_batches(after.producers.entries) == all_batches(before.producers.entries)


def test_remove_stray_snapshots_keeps_those_of_segments_and_of_the_last_clean_stop() -> None:
    store = new_store(SMALL_SEGMENTS)
    for _ in range(12):
        partition = open_partition(store, SMALL_SEGMENTS)
        partition.append_nowait(batch_of(1))
        partition.close()
    bases = [view.base_offset for view in store.segments()]
    assert len(bases) > 1
    open_partition(store, SMALL_SEGMENTS)
    assert snapshot_offsets(store.side_files()) == [*bases[1:], 12]


async def test_replace_segments_removes_the_snapshots_of_segments_that_are_gone() -> None:
    """Otherwise each roll of a compacted log would leave a file until the next start."""
    store = new_store(SMALL_SEGMENTS)
    partition = used_partition(store, SMALL_SEGMENTS)
    first, *gone, newest, _ = bases = [view.base_offset for view in store.segments()]
    assert gone
    assert snapshot_offsets(store.side_files()) == bases[1:]
    draft = store.draft_segment(first)
    for header in store.headers(first):
        if header.base_offset < newest:
            batch = content(store.read_batches(header.base_offset, header.size, header.next_offset))
            draft.append(batch, header.base_offset, header.last_offset, header.max_timestamp)
    await partition.replace_segments([draft], [first, *gone])
    assert snapshot_offsets(store.side_files()) == bases[-2:]
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert newest_batches(after.producers.entries) == newest_batches(partition.producers.entries)


@pytest.mark.parametrize("segments", [1, 2, 3])
def test_write_missing_snapshot_writes_one_for_several_segments_without_any(segments: int) -> None:
    store = new_store(SMALL_SEGMENTS)
    partition = open_partition(store, SMALL_SEGMENTS, in_thread=lost_background)
    sequence = 0
    while len(store.segments()) < segments or not sequence:
        partition.append_nowait(sent(1, 0, sequence))
        sequence += 1
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert snapshot_offsets(store.side_files()) == ([sequence] if segments > 1 else [])
    assert all_batches(after.producers.entries) == all_batches(partition.producers.entries)


def test_load_snapshot_from_before_the_log_start_restores_producers() -> None:
    """The log's start may have moved past the newest snapshot; what it says of producers still holds."""
    store = new_store(SMALL_SEGMENTS)
    before = used_partition(store, SMALL_SEGMENTS)
    start = max(snapshot_offsets(store.side_files())) + 1
    store.raise_log_start(start)
    after = open_partition(store, SMALL_SEGMENTS, clean_start=False)
    assert after.log_start_offset == start
    assert newest_batches(after.producers.entries) == newest_batches(before.producers.entries)
