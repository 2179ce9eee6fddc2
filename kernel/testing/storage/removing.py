"""Conformance: truncating from the end, deleting from the start."""

from __future__ import annotations

import pytest

from tidelog.kernel.testing.storage.harness import StorageHarness, append, append_many, read_all, read_bytes
from tidelog.kernel.testing.storage.model import ModelLog


@pytest.mark.trio
class Removing:
    """Truncating from the end, deleting from the start."""

    @pytest.mark.parametrize("offset", [0, 1, 3, 4, 5, 9, 10, 11, 20, 28, 29, 30, 31, 99])
    async def test_truncate_to_removes_the_batch_of_the_offset_and_all_above(
        self, harness: StorageHarness, offset: int
    ) -> None:
        settings = {"segment_bytes": 500, "index_interval_bytes": 100}
        store = await harness.open_store(**settings)
        model = ModelLog()
        for _ in range(10):
            model.append(append(store, 120, records=3))
        store.truncate_to(offset)
        model.truncate_to(offset)
        end = model.end_offset if model.batches else 0
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**settings)
            assert (store.log_start_offset, store.log_end_offset) == (0, end)
            assert read_all(store) == model.read(0, 100)
            assert store.size_bytes == len(model.read(0, 100))
            assert store.segments()[-1].next_offset == end

    async def test_truncate_to_is_followed_by_appends(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=500, index_interval_bytes=100)
        model = ModelLog()
        for size in (100, 300, 20, 200):
            for _ in range(7):
                model.append(append(store, size, records=2))
            offset = store.log_end_offset - 5
            store.truncate_to(offset)
            model.truncate_to(offset)
            assert store.log_end_offset == model.end_offset
            assert read_all(store) == model.read(0, model.end_offset)

    async def test_truncate_to_below_the_log_start_empties_the_log_at_that_offset(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(segment_bytes=500)
        append_many(store, 10, 300)
        store.delete_segments_before(6)
        assert store.log_start_offset == 6
        store.truncate_to(2)
        assert (store.log_start_offset, store.log_end_offset, store.size_bytes) == (2, 2, 0)
        batch = append(store, 10)
        assert read_bytes(store, 2) == batch

    async def test_delete_segments_before_deletes_whole_segments(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=700)
        model = ModelLog()
        for _ in range(10):
            model.append(append(store, 250))
        starts = [segment.base_offset for segment in store.segments()]
        assert len(starts) == 5
        assert len(store.delete_segments_before(starts[1] - 1)) == 0
        assert len(store.delete_segments_before(starts[2] + 1)) == 2
        assert store.log_start_offset == starts[2]
        model.delete_before(starts[2])
        assert read_all(store) == model.read(0, store.log_end_offset)
        assert store.size_bytes == len(read_all(store))

    async def test_delete_segments_before_keeps_the_active_segment(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=700)
        append_many(store, 10, 250)
        active = store.segments()[-1]
        assert len(store.delete_segments_before(store.log_end_offset)) == 4
        assert [segment.base_offset for segment in store.segments()] == [active.base_offset]
        assert store.log_end_offset == 10

    async def test_raise_log_start_raises_the_log_start_offset(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=700)
        append_many(store, 10, 250)
        store.raise_log_start(5)
        store.raise_log_start(3)
        assert store.log_start_offset == 5
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(segment_bytes=700)
            assert store.log_start_offset == 5
        assert len(store.delete_segments_before(store.log_start_offset)) == 2
        assert store.log_start_offset == 5
        store.raise_log_start(10)
        assert store.log_start_offset == store.log_end_offset == 10

    async def test_flush_returns_the_durable_offset(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=500)
        for end in range(1, 8):
            append(store, 200)
            assert store.flush() == end
        store.truncate_to(3)
        assert store.flush() == 3
