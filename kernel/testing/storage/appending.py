"""Conformance: appending and rolling."""

from __future__ import annotations

import resource
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import BatchTooLarge
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import (
    StorageHarness,
    append,
    append_many,
    base_offsets,
    headers_of,
    read_all,
    read_bytes,
)

HOUR_MS = 3_600_000


@contextmanager
def files_no_larger_than(size: int) -> Generator[None]:
    """Let every write beyond `size` bytes of any file fail, after having written what lies below."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def state_of(store: PartitionStore) -> tuple[object, ...]:
    """Everything about a log that an append which failed must leave as it was."""
    return store.log_start_offset, store.log_end_offset, store.size_bytes, read_all(store)


@pytest.mark.trio
class Appending:
    """Appending and rolling."""

    async def test_open_partitions_of_a_new_log_is_empty(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        assert (store.log_start_offset, store.log_end_offset, store.size_bytes) == (0, 0, 0)
        assert read_bytes(store, 0) == b""
        assert list(store.headers(0)) == []
        assert store.flush() == 0

    async def test_append_advances_log_end_offset_and_size_bytes(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        sizes: list[int] = []
        for records in (1, 3, 100):
            sizes.append(len(append(store, 10, records=records)))
            assert store.size_bytes == sum(sizes)
        assert (store.log_start_offset, store.log_end_offset) == (0, 104)

    async def test_log_directory_is_among_those_of_the_storage(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        admin = harness.storage.log_directories
        paths = [] if admin is None else [each.path for each in await admin.describe()]
        assert store.log_directory in (paths or [""])

    async def test_flush_makes_everything_durable(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000)
        for count in (1, 5, 0):
            append_many(store, count, 300)
            assert store.flush() == store.log_end_offset
            assert store.durable_offset == store.log_end_offset

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    async def test_append_accepts_any_buffer_and_does_not_keep_it(
        self, harness: StorageHarness, kind: Callable[[bytearray], Buffer]
    ) -> None:
        store = await harness.open_store()
        batch = make_batch([b"kept"])
        store.append_batch(kind(batch), 0, 0, START_MS)
        expected = bytes(batch)
        batch[:] = bytes(len(batch))
        assert read_bytes(store, 0) == expected

    async def test_append_accepts_a_gap_before_a_batch(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        append(store)
        append(store, gap=10, records=2)
        assert store.log_end_offset == 13
        assert base_offsets(store.headers(0)) == [0, 11]

    async def test_append_accepts_a_batch_that_compaction_has_changed(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        batch = make_batch([], 0, last_offset_delta=9)
        store.append_batch(batch, 0, 9, START_MS)
        assert store.log_end_offset == 10
        assert read_bytes(store, 7) == bytes(batch)

    @pytest.mark.parametrize(("base_offset", "last_offset"), [(0, 0), (1, 1), (0, 5)])
    async def test_append_refuses_offsets_below_the_log_end(
        self, harness: StorageHarness, base_offset: int, last_offset: int
    ) -> None:
        store = await harness.open_store()
        append(store, records=2)
        before = state_of(store)
        with pytest.raises(ValueError, match="do not follow"):
            store.append_batch(make_batch([b""], base_offset), base_offset, last_offset, START_MS)
        assert state_of(store) == before

    async def test_append_refuses_a_batch_larger_than_a_segment(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000)
        append(store, 100)
        before = state_of(store)
        with pytest.raises(BatchTooLarge):
            append(store, 1000)
        assert state_of(store) == before
        append(store, 100)

    async def test_append_rolls_by_segment_bytes(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000)
        rolled: list[bool] = []
        content = b""
        for _ in range(6):
            base_offset = store.log_end_offset
            batch = bytes(make_batch([b"x" * 330], base_offset))
            rolled.append(store.append_batch(batch, base_offset, base_offset, START_MS))
            content += batch
        assert rolled == [False, False, True, False, True, False]
        assert [segment.base_offset for segment in store.segments()] == [0, 2, 4]
        assert read_all(store) == content

    async def test_append_accepts_a_batch_that_fills_a_segment_exactly(self, harness: StorageHarness) -> None:
        batch = make_batch([b"x" * 100])
        store = await harness.open_store(segment_bytes=2 * len(batch))
        for offset in range(2):
            assert not store.append_batch(make_batch([b"x" * 100], offset), offset, offset, START_MS)
        assert store.append_batch(make_batch([b"x" * 100], 2), 2, 2, START_MS)

    async def test_append_rolls_by_segment_ms(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_ms=HOUR_MS)
        for timestamp, expected in (
            (START_MS, False),
            (START_MS + HOUR_MS, False),
            (START_MS - HOUR_MS, False),
            (START_MS + HOUR_MS + 1, True),
            (START_MS + HOUR_MS + 2, False),
            (START_MS + 2 * HOUR_MS + 2, True),
        ):
            offset = store.log_end_offset
            assert store.append_batch(make_batch([b""], offset), offset, offset, timestamp) is expected

    @pytest.mark.parametrize("prepared", [True, False])
    async def test_roll_begins_a_segment_at_the_log_end(
        self, harness: StorageHarness, prepared: bool
    ) -> None:
        settings = {"segment_bytes": 10_000}
        store = await harness.open_store(**settings)
        content = b"".join(append_many(store, 3, 100))
        for expected in (True, False):
            if prepared:
                store.prepare_roll()
            assert store.roll() is expected
        assert [(view.base_offset, view.next_offset) for view in store.segments()] == [(0, 3), (3, 3)]
        assert (store.log_start_offset, store.log_end_offset, read_all(store)) == (0, 3, content)
        content += append(store, 100)
        assert read_all(store) == content
        assert [view.base_offset for view in store.segments()] == [0, 3]
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(**settings)
            assert [view.base_offset for view in store.segments()] == [0, 3]
            assert read_all(store) == content

    async def test_roll_of_an_empty_log_does_nothing(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        store.prepare_roll()
        assert not store.roll()
        assert [view.base_offset for view in store.segments()] == [0]
        append(store)
        assert store.log_end_offset == 1

    async def test_roll_lets_the_whole_log_be_deleted(self, harness: StorageHarness) -> None:
        settings = {"segment_bytes": 500}
        store = await harness.open_store(**settings)
        append_many(store, 7, 100)
        views = store.segments()
        store.prepare_roll()
        assert store.roll()
        assert store.delete_segments_before(7) == views
        assert (store.log_start_offset, store.log_end_offset, store.size_bytes) == (7, 7, 0)
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(**settings)
        assert (store.log_start_offset, store.log_end_offset, store.size_bytes) == (7, 7, 0)
        batch = append(store, 10)
        assert read_bytes(store, 7) == batch

    async def test_configure_is_followed_by_appends(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=10_000)
        append_many(store, 3, 100)
        store.configure(TopicConfig({"segment.bytes": 500}))
        append_many(store, 3, 100)
        assert [segment.base_offset for segment in store.segments()] == [0, 3, 5]
        with pytest.raises(BatchTooLarge):
            append(store, 500)

    async def test_segments_describes_each_segment(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=500)
        append_many(store, 10, 100, step_ms=1000)
        views = store.segments()
        assert len(views) > 2
        assert sum(view.size_bytes for view in views) == store.size_bytes
        assert [view.next_offset for view in views[:-1]] == [view.base_offset for view in views[1:]]
        assert views[-1].next_offset == store.log_end_offset
        for view in views:
            assert view.max_timestamp == START_MS + (view.next_offset - 1) * 1000
            assert view.last_modified_ms > 0

    async def test_append_to_a_full_disk_changes_nothing(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=100_000, index_interval_bytes=0)
        append_many(store, 5, 1000)
        before = state_of(store)
        for size in (20, 5000):
            # The second does not fit: a part of it is written before the disk refuses.
            with files_no_larger_than(store.size_bytes + 300):
                try:
                    append(store, size)
                except OSError:
                    assert state_of(store) == before
            before = state_of(store)
        written = append(store, 5000)
        assert read_bytes(store, store.log_end_offset - 1) == written
        assert (
            b"".join(b"x" * header.size for header in headers_of(read_all(store))) == b"x" * store.size_bytes
        )

    async def test_append_to_a_full_disk_at_a_roll_changes_nothing(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=3000)
        append(store, 2500)
        before = state_of(store)
        with files_no_larger_than(10):
            try:
                append(store, 2500)
            except OSError:
                assert state_of(store) == before
        append(store, 2500)
        assert read_bytes(store, 0)[:61] == before[3][:61]  # type: ignore[index]
