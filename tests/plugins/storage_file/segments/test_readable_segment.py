"""Readers and the writer at every step of each other: a thread may be run between any two lines."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.plugins.storage_file.between_lines import between_lines
from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import verify_crc
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.storage.harness import append, append_many, headers_of, read_all, slice_bytes

APPENDING = ("segments/segment.py", "indexes/sparse_index.py", "indexes/offset_index.py", "log/local_log.py")
READING = ("partition_store.py", "segments/readable_segment.py", "indexes/offset_index.py")
CUTTING = ("segments/segment.py",)
LISTING = ("segments/log_segments.py",)


def check_reads(store: PartitionStore) -> None:
    """Read to the end of the log from each of the last offsets and from a few others.

    The batch that is being appended may be missing, and nothing else.
    """
    end = store.log_end_offset
    for offset in {0, end // 2, end - 2, end - 1}:
        if 0 <= offset < end:
            found = store.read_batches(offset, 1 << 20, end, wait=True)
            assert found.end_offset <= end
            if found.size or offset < end - 1:
                check_content(slice_bytes(found), offset, end)


def check_content(content: bytes, offset: int, end: int) -> None:
    headers = headers_of(content)
    assert headers[0].base_offset == offset
    position = 0
    for expected, header in enumerate(headers, offset):
        assert header.base_offset == expected < end
        assert verify_crc(content[position : position + header.size], header)
        position += header.size
    assert position == len(content)


async def test_read_between_any_two_lines_of_an_append(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=3000, index_interval_bytes=300)
    with between_lines(APPENDING, lambda: check_reads(store)):
        for _ in range(20):
            append(store, 200)
    assert len(store.segments()) > 1
    assert len(headers_of(read_all(store))) == 20


async def test_append_between_any_two_lines_of_a_read(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(index_interval_bytes=300)
    append_many(store, 5, 200)
    passed, chosen = 0, 1

    def append_at_chosen() -> None:
        nonlocal passed
        passed += 1
        if passed == chosen:
            append(store, 200)

    while chosen == 1 or passed >= chosen - 1:
        passed = 0
        with between_lines(READING, append_at_chosen):
            check_reads(store)
        chosen += 1
    assert store.log_end_offset > 20


async def test_read_between_any_two_lines_of_a_replacement(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(segment_bytes=1000)
    content = b"".join(append_many(store, 12, 300))
    bases = [view.base_offset for view in store.segments()]
    draft = store.draft_segment(bases[1])
    for header in store.headers(bases[1]):
        if header.base_offset < bases[3]:
            batch = slice_bytes(store.read_batches(header.base_offset, 1, header.next_offset, wait=True))
            draft.append(batch[: header.size], header.base_offset, header.last_offset, header.max_timestamp)
    with between_lines(LISTING, lambda: read_each(store)):
        store.replace_segments([draft], bases[1:3])
    assert [view.base_offset for view in store.segments()] == [*bases[:2], *bases[3:]]
    assert read_all(store) == content


def read_each(store: PartitionStore) -> None:
    for offset in range(store.log_end_offset):
        found = store.read_batches(offset, 1, store.log_end_offset)
        assert headers_of(slice_bytes(found))[0].base_offset == offset


@pytest.mark.parametrize("at_end", [False, True])
async def test_truncate_to_between_any_two_lines_of_a_read_leaves_later_reads_right(
    harness: LogDirectoryHarness, at_end: bool
) -> None:
    store = await harness.open_store(index_interval_bytes=300)
    passed, chosen = 0, 1

    def cut_at_chosen() -> None:
        nonlocal passed
        passed += 1
        if passed == chosen:
            store.truncate_to(5)
            # Others than before: where the old log ended, no batch of the new one begins.
            append_many(store, 12, 333)

    while chosen == 1 or passed >= chosen - 1:
        passed = 0
        store.truncate_to(0)
        append_many(store, 10, 200)
        if at_end:
            # It finds the place that this one notes.
            store.read_batches(7, 1 << 20, 10, wait=True)
            with between_lines(READING, cut_at_chosen):
                found = store.read_batches(10, 1 << 20, 17, wait=True)
            if found.size:
                check_content(slice_bytes(found), 10, 17)
        else:
            with between_lines(READING, cut_at_chosen), suppress(CorruptBatch):
                # What this one gets, the log does not have any more; a reader is held back before the cut.
                store.read_batches(7, 1 << 20, 10, wait=True)
        if passed >= chosen:
            check_each(store)
        chosen += 1
    assert chosen > 8


async def test_read_between_any_two_lines_of_truncate_to_leaves_later_reads_right(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(index_interval_bytes=300)
    passed, chosen = 0, 1

    def read_at_chosen() -> None:
        nonlocal passed
        passed += 1
        if passed == chosen:
            with suppress(CorruptBatch):
                store.read_batches(7, 1 << 20, 10, wait=True)

    while chosen == 1 or passed >= chosen - 1:
        passed = 0
        store.truncate_to(0)
        append_many(store, 10, 200)
        with between_lines(CUTTING, read_at_chosen):
            store.truncate_to(5)
        append_many(store, 12, 333)
        check_each(store)
        chosen += 1
    assert chosen > 20


def check_each(store: PartitionStore) -> None:
    # First where the log ended before: each read notes where the next one may continue.
    for offset in (10, *range(store.log_end_offset)):
        check_content(slice_bytes(store.read_batches(offset, 1 << 20, store.log_end_offset)), offset, 1 << 20)
