"""Conformance: files beside the log."""

from __future__ import annotations

import pytest

from tidelog.kernel.testing.storage.harness import StorageHarness

EPOCHS = "leader-epoch-checkpoint"
SNAPSHOTS = [f"{offset:020d}.snapshot" for offset in (7, 20, 100)]


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
