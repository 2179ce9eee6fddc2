"""Conformance: reading by offset."""

from __future__ import annotations

import itertools

import pytest

from tidelog.kernel.seams.storage import WouldBlock
from tidelog.kernel.testing.storage.harness import (
    StorageHarness,
    append,
    append_many,
    headers_of,
    read_all,
    read_bytes,
    slice_bytes,
)
from tidelog.kernel.testing.storage.model import ModelLog


@pytest.mark.trio
class Reading:
    """Reading by offset."""

    async def test_read_at_every_offset_returns_its_batch(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=5000, index_interval_bytes=500)
        batches = [append(store, 200, records=3) for _ in range(60)]
        for offset in range(store.log_end_offset):
            content = read_bytes(store, offset, max_bytes=1)
            assert content == batches[offset // 3]

    @pytest.mark.parametrize("max_bytes", [0, 1, 100, 5000, 1 << 30])
    async def test_read_returns_the_first_batch_whole(self, harness: StorageHarness, max_bytes: int) -> None:
        store = await harness.open_store()
        first = append(store, 1000)
        append(store, 1000)
        content = read_bytes(store, 0, max_bytes)
        assert content.startswith(first)
        assert len(content) <= max(max_bytes, len(first))

    async def test_read_may_end_within_the_last_batch(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        log = b"".join(append_many(store, 10, 100))
        for max_bytes in range(200, len(log) + 50, 37):
            content = read_bytes(store, 0, max_bytes)
            assert log.startswith(content)
            assert len(content) == min(max_bytes, len(log))

    @pytest.mark.parametrize("max_bytes", [1, 300, 1000, 100_000])
    async def test_read_repeatedly_returns_the_whole_log(
        self, harness: StorageHarness, max_bytes: int
    ) -> None:
        store = await harness.open_store(segment_bytes=2000, index_interval_bytes=200)
        log = b"".join(append_many(store, 50, 150, records=2))
        content, offset = b"", 0
        while offset < store.log_end_offset:
            whole = headers_of(read_bytes(store, offset, max_bytes))
            content += read_bytes(store, offset, max_bytes)[: sum(header.size for header in whole)]
            offset = whole[-1].next_offset
        assert content == log

    async def test_read_returns_nothing_at_or_above_the_limit(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1500, index_interval_bytes=200)
        model = ModelLog()
        for _ in range(20):
            model.append(append(store, 100, records=5))
        for offset, limit in itertools.combinations_with_replacement(range(0, 101, 3), 2):
            content = read_bytes(store, offset, limit=limit)
            expected = model.read(offset, limit)
            assert expected.startswith(content)
            assert bool(content) == bool(expected)

    @pytest.mark.parametrize("offset", [0, 4, 10])
    async def test_read_at_the_limit_is_empty(self, harness: StorageHarness, offset: int) -> None:
        store = await harness.open_store()
        append(store, records=10)
        assert read_bytes(store, offset, limit=offset) == b""

    async def test_read_in_a_gap_returns_the_next_batch(self, harness: StorageHarness) -> None:
        store = await harness.open_store(index_interval_bytes=0)
        first = append(store, records=5)
        second = append(store, gap=5, records=5)
        third = append(store, gap=100, records=5)
        for offset, expected in (
            (4, first),
            (5, second),
            (9, second),
            (10, second),
            (15, third),
            (114, third),
        ):
            assert read_bytes(store, offset, max_bytes=1) == expected
        assert read_bytes(store, 6, limit=10) == b""
        assert read_bytes(store, 6, limit=11) == second

    async def test_read_in_a_gap_at_the_end_of_a_segment_returns_the_next_one(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(segment_bytes=500)
        append(store, 300)
        second = append(store, 300, gap=50)
        assert len(store.segments()) == 2
        assert read_bytes(store, 20) == second
        assert read_bytes(store, 20, limit=51) == b""

    async def test_read_at_the_end_returns_each_append(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=3000, index_interval_bytes=100)
        for _ in range(40):
            offset = store.log_end_offset
            assert read_bytes(store, offset) == b""
            batch = append(store, 200, records=2)
            assert read_bytes(store, offset) == batch
            assert read_bytes(store, offset, max_bytes=1) == batch

    async def test_read_with_wait_returns_the_same(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=2000)
        append_many(store, 30, 150)
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store(segment_bytes=2000)
        for offset in range(store.log_end_offset):
            try:
                at_once = slice_bytes(store.read_batches(offset, 1000, store.log_end_offset))
            except WouldBlock:
                continue
            finally:
                waited = slice_bytes(store.read_batches(offset, 1000, store.log_end_offset, wait=True))
            assert at_once == waited

    async def test_read_returns_regions_that_outlive_their_partition(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000)
        append_many(store, 20, 300)
        regions = [store.read_batches(offset, 1, store.log_end_offset, wait=True) for offset in range(20)]
        expected = [slice_bytes(region) for region in regions]
        store.delete_segments_before(10)
        assert list(map(slice_bytes, regions)) == expected
        await harness.storage.delete_partitions([(harness.spec().topic_partition, store)])
        assert list(map(slice_bytes, regions)) == expected
        await harness.close()
        assert list(map(slice_bytes, regions)) == expected

    async def test_resident_of_the_regions_of_a_read(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        append_many(store, 10, 10_000)
        for region in store.read_batches(0, 1 << 30, store.log_end_offset, wait=True).regions:
            if not isinstance(region, bytes | memoryview):
                region.file.prefetch(region.position, region.size)
                assert region.file.resident(region.position, region.size)

    async def test_headers_begins_with_the_batch_of_the_offset(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000)
        model = ModelLog()
        for gap in (0, 3, 0, 7, 0, 0, 1):
            model.append(append(store, 300, gap=gap, records=4))
        for offset in range(store.log_end_offset + 1):
            expected = [headers_of(batch.data)[0]._replace(crc=0) for batch in model.from_offset(offset)]
            assert [header._replace(crc=0) for header in store.headers(offset)] == expected
        assert read_all(store) == model.read(0, store.log_end_offset)
