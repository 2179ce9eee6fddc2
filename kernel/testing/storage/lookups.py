"""Conformance: finding batches by timestamp."""

from __future__ import annotations

import pytest

from tidelog.kernel.records.batch import NO_TIMESTAMP
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import StorageHarness, append
from tidelog.kernel.testing.storage.model import ModelLog

# Seconds after the start, one for each batch; clients' clocks need not agree.
TIMELINES = {
    "growing": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "all the same": [5] * 10,
    "falling": [10, 9, 8, 7, 6, 5, 4, 3, 2, 1],
    "back and forth": [5, 1, 9, 2, 9, 3, 7, 10, 4, 6],
    "in steps": [1, 1, 1, 4, 4, 4, 8, 8, 8, 8],
}


@pytest.mark.trio
class Lookups:
    """Finding batches by timestamp."""

    @pytest.mark.parametrize("segment_bytes", [600, 1 << 20])
    @pytest.mark.parametrize("name", TIMELINES)
    async def test_batch_at_timestamp_returns_the_first_batch_that_reaches_it(
        self, harness: StorageHarness, name: str, segment_bytes: int
    ) -> None:
        settings = {"segment_bytes": segment_bytes, "index_interval_bytes": 150}
        store = await harness.open_store(**settings)
        model = ModelLog()
        for seconds in TIMELINES[name]:
            model.append(append(store, 100, timestamp=START_MS + seconds * 1000, records=2))
        for closed_in_between in (False, True):
            if closed_in_between and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(**settings)
            for timestamp in range(START_MS, START_MS + 11_001, 250):
                assert store.batch_at_timestamp(timestamp) == model.at_timestamp(timestamp)
            assert store.batch_of_max_timestamp() == model.of_max_timestamp()

    async def test_batch_at_timestamp_of_an_empty_log(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        assert store.batch_at_timestamp(0) is None
        assert store.batch_of_max_timestamp() is None

    async def test_batch_at_timestamp_orders_batches_without_a_timestamp_first(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store()
        first = append(store, timestamp=NO_TIMESTAMP)
        append(store, timestamp=NO_TIMESTAMP)
        assert store.batch_at_timestamp(0) is None
        assert store.batch_of_max_timestamp() == first
        dated = append(store, timestamp=5)
        assert store.batch_at_timestamp(0) == dated
        assert store.batch_of_max_timestamp() == dated

    async def test_first_timestamp_is_that_of_the_first_batch_of_a_segment(
        self, harness: StorageHarness
    ) -> None:
        store = await harness.open_store(segment_bytes=500)
        for index in range(9):
            append(store, 100, timestamp=START_MS + (index * 7) % 10)
        # Of its batches that have a timestamp, the first one is not the first of all.
        append(store, 100, timestamp=NO_TIMESTAMP)
        bases = [view.base_offset for view in store.segments()]
        assert bases == [0, 2, 4, 6, 8]
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
                store = await harness.open_store(segment_bytes=500)
            assert [store.first_timestamp(base) - START_MS for base in bases] == [0, 4, 8, 2, 6]

    async def test_first_timestamp_of_no_segment_or_no_batch(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=500)
        assert store.first_timestamp(0) == NO_TIMESTAMP
        for number in range(10):
            append(store, 100, timestamp=NO_TIMESTAMP if number in (2, 3) else START_MS)
        assert store.first_timestamp(1) == store.first_timestamp(10) == store.first_timestamp(2) == -1
        store.delete_segments_before(4)
        assert store.first_timestamp(0) == NO_TIMESTAMP
        store.roll()
        assert [store.first_timestamp(base) for base in (8, 10)] == [START_MS, NO_TIMESTAMP]
        store.truncate_to(8)
        assert store.first_timestamp(8) == NO_TIMESTAMP
        append(store, timestamp=START_MS + 5)
        assert store.first_timestamp(8) == START_MS + 5

    async def test_batch_at_timestamp_after_truncate_to(self, harness: StorageHarness) -> None:
        store = await harness.open_store(segment_bytes=1000, index_interval_bytes=100)
        model = ModelLog()
        for index in range(20):
            model.append(append(store, 200, timestamp=START_MS + (index % 7) * 1000))
        for offset in range(19, 0, -1):
            store.truncate_to(offset)
            model.truncate_to(offset)
            for seconds in range(8):
                timestamp = START_MS + seconds * 1000
                assert store.batch_at_timestamp(timestamp) == model.at_timestamp(timestamp)
            assert store.batch_of_max_timestamp() == model.of_max_timestamp()
