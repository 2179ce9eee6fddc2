"""Conformance: opening, closing and deleting partitions, and the files beside their logs."""

from __future__ import annotations

import pytest

from tidelog.kernel.errors import ConfigError, StorageError
from tidelog.kernel.seams.storage.directories import NO_BROKER_EPOCH, NO_TOPICS
from tidelog.kernel.testing.storage.harness import StorageHarness, append, append_many, read_all
from tidelog.kernel.testing.storage.model import ModelLog

EPOCHS = "leader-epoch-checkpoint"
SNAPSHOTS = [f"{offset:020d}.snapshot" for offset in (7, 20, 100)]


@pytest.mark.trio
class Lifecycle:
    """Opening, closing and deleting partitions."""

    async def test_open_partitions_returns_stores_in_the_order_of_the_partitions(
        self, harness: StorageHarness
    ) -> None:
        specs = [harness.spec(topic, number) for topic in ("b", "a-1", "a") for number in (2, 0, 1)]
        done: list[int] = []
        stores = await harness.storage.open_partitions(specs, done.append)
        for count, store in enumerate(stores):
            append_many(store, count)
        assert [store.log_end_offset for store in stores] == list(range(9))
        assert done == sorted(done)
        assert done[-1] == 9

    async def test_open_partitions_refuses_an_open_partition(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        append(store)
        with pytest.raises(StorageError):
            await harness.open_store()
        assert store.log_end_offset == 1

    async def test_open_of_a_new_storage_is_clean(self, harness: StorageHarness) -> None:
        assert harness.storage.clean_start

    async def test_checkpointed_high_watermark_of_a_new_partition_is_zero(
        self, harness: StorageHarness
    ) -> None:
        assert (await harness.open_store()).checkpointed_high_watermark == 0

    async def test_open_partitions_after_close_returns_everything(self, harness: StorageHarness) -> None:
        if not harness.backend.durable:
            pytest.skip("the backend keeps nothing")
        settings = {"segment_bytes": 2000, "index_interval_bytes": 300}
        store = await harness.open_store(**settings)
        model = ModelLog()
        for _ in range(3):
            for index in range(20):
                model.append(append(store, 150, gap=index % 2, records=index % 3 + 1))
            segments = store.segments()
            await harness.reopen()
            assert harness.storage.clean_start
            store = await harness.open_store(**settings)
            assert (store.log_start_offset, store.log_end_offset) == (0, model.end_offset)
            assert read_all(store) == model.read(0, model.end_offset)
            assert store.size_bytes == len(read_all(store))
            before = [(view.base_offset, view.size_bytes, view.max_timestamp) for view in segments]
            after = [(view.base_offset, view.size_bytes, view.max_timestamp) for view in store.segments()]
            assert before == after

    async def test_close_keeps_what_was_appended_last(self, harness: StorageHarness) -> None:
        if not harness.backend.durable:
            pytest.skip("the backend keeps nothing")
        content = b""
        for _ in range(3):
            store = await harness.open_store()
            content += b"".join(append_many(store, 2, 100))
            # As a broker stops; what was not flushed has to be there again, too.
            await harness.storage.close_partitions([(harness.spec().topic_partition, store.close)])
            await harness.reopen()
            assert harness.storage.clean_start
        store = await harness.open_store()
        assert (store.log_end_offset, read_all(store)) == (6, content)

    async def test_what_was_flushed_survives_the_process(self, harness: StorageHarness) -> None:
        if not harness.backend.durable:
            pytest.skip("the backend keeps nothing")
        store = await harness.open_store(segment_bytes=500)
        flushed = b"".join(append_many(store, 5, 100))
        assert store.flush() == 5
        append(store)
        harness.storage.abandon()
        await harness.open_again()
        assert not harness.storage.clean_start
        store = await harness.open_store(segment_bytes=500)
        # What was not flushed may be there or not; a process that ends loses less than a machine does.
        assert read_all(store).startswith(flushed)

    async def test_delete_partitions_deletes_for_good(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        append_many(store, 5)
        store.write_side_file("leader-epoch-checkpoint", b"old")
        await harness.storage.delete_partitions([(harness.spec().topic_partition, store)])
        harness.forget_topic("topic")
        for again in (False, True):
            if again and harness.backend.durable:
                await harness.reopen()
            if again and not harness.backend.durable:
                break
            store = await harness.open_store()
            assert (store.log_start_offset, store.log_end_offset) == (0, 0)
            assert list(store.side_files()) == []

    async def test_delete_partitions_keeps_the_others(self, harness: StorageHarness) -> None:
        specs = [harness.spec(partition=number) for number in range(3)]
        stores = await harness.storage.open_partitions(specs)
        contents = [append(store) for store in stores]
        await harness.storage.delete_partitions([(specs[1].topic_partition, stores[1])])
        append(stores[0])
        assert read_all(stores[2]) == contents[2]

    async def test_open_of_two_storages_shares_no_data(self, harness: StorageHarness) -> None:
        metadata = harness.metadata
        other = harness.new_storage()
        harness.metadata = metadata
        if harness.backend.durable:
            with pytest.raises(ConfigError):
                await other.open()
            return
        await other.open()
        await other.load(NO_TOPICS)
        (store,) = await other.open_partitions([harness.spec()])
        append(store)
        assert (await harness.open_store()).log_end_offset == 0
        await other.finish_writes()
        await other.close(NO_BROKER_EPOCH)


@pytest.mark.trio
class SideFileKeeping:
    """Files beside the log."""

    async def test_write_side_file_read_side_file_and_delete_side_file(self, harness: StorageHarness) -> None:
        store = await harness.open_store()
        assert list(store.side_files()) == []
        for name in (EPOCHS, *reversed(SNAPSHOTS)):
            assert store.read_side_file(name) is None
            store.write_side_file(name, b"old")
            store.write_side_file(name, name.encode())
        assert list(store.side_files()) == [*SNAPSHOTS, EPOCHS]
        store.delete_side_file(SNAPSHOTS[1])
        store.delete_side_file(SNAPSHOTS[1])
        assert list(store.side_files()) == [SNAPSHOTS[0], SNAPSHOTS[2], EPOCHS]
        assert store.read_side_file(SNAPSHOTS[1]) is None
        assert store.read_side_file(EPOCHS) == EPOCHS.encode()

    @pytest.mark.parametrize("content", [b"", b"\0", bytes(range(256)) * 1000])
    async def test_read_side_file_returns_any_content(self, harness: StorageHarness, content: bytes) -> None:
        store = await harness.open_store()
        store.write_side_file(EPOCHS, content)
        if harness.backend.durable:
            await harness.reopen()
            store = await harness.open_store()
            assert list(store.side_files()) == [EPOCHS]
        assert store.read_side_file(EPOCHS) == content

    async def test_write_side_file_is_by_partition(self, harness: StorageHarness) -> None:
        specs = [harness.spec(partition=number) for number in range(2)]
        one, other = await harness.storage.open_partitions(specs)
        one.write_side_file(EPOCHS, b"one")
        assert list(other.side_files()) == []
        assert other.read_side_file(EPOCHS) is None
