"""The event loop never waits for a device."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.records.batch import HEADER_BYTES
from tidelog.kernel.seams.storage import FileRegion, WouldBlock
from tidelog.kernel.testing.storage.harness import append_many, slice_bytes
from tidelog.plugins.storage_file.log_file import CHUNK_BYTES, PROBE_STRIDE_BYTES, LogFile

NOWAIT = os.RWF_NOWAIT


class ColdDevice:
    """`preadv` on a device of which only some bytes are in memory."""

    def __init__(self, resident: range) -> None:
        self.resident = resident
        self.asked: list[int] = []

    def preadv(
        self, fd: int, buffers: Sequence[bytearray | memoryview], position: int, flags: int = 0
    ) -> int:
        if not flags & NOWAIT:
            return os.preadv(fd, buffers, position)
        self.asked.append(position)
        if position not in self.resident:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        view = memoryview(buffers[0])[: self.resident.stop - position]
        return os.preadv(fd, [view], position)


async def test_read_raises_would_block_for_a_position_that_is_not_resident(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(index_interval_bytes=500)
    batches = append_many(store, 20, 300)
    monkeypatch.setattr(disk, "preadv", ColdDevice(range(0)).preadv)
    for offset in (1, 7, 19):
        with pytest.raises(WouldBlock):
            store.read_batches(offset, 1, store.log_end_offset)
        assert slice_bytes(store.read_batches(offset, 1, store.log_end_offset, wait=True)) == batches[offset]


async def test_read_scans_at_most_the_log_between_two_index_entries(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    interval = 3 * CHUNK_BYTES
    store = await harness.open_store(index_interval_bytes=interval)
    batches = append_many(store, 200, 300)
    # Maps the index.
    store.read_batches(1, 1, store.log_end_offset, wait=True)
    device = ColdDevice(range(1 << 30))
    monkeypatch.setattr(disk, "preadv", device.preadv)
    for offset in (1, 100, 150, 198):
        device.asked.clear()
        found = store.read_batches(offset, 1, store.log_end_offset)
        (region,) = found.regions
        assert isinstance(region, FileRegion)
        assert region.size == len(batches[offset])
        assert min(device.asked) >= region.position - interval - 2 * region.size
        assert max(device.asked) <= region.position


async def test_read_raises_would_block_for_a_header_that_is_only_partly_resident(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(index_interval_bytes=100_000)
    batches = append_many(store, 5, 300)
    start = len(batches[0])
    for known in range(start, start + HEADER_BYTES):
        device = ColdDevice(range(known))
        monkeypatch.setattr(disk, "preadv", device.preadv)
        try:
            found = store.read_batches(1, 1, store.log_end_offset)
        except WouldBlock:
            continue
        assert slice_bytes(found) == batches[1]
        assert known >= start + 27, "a position was told by a header that was not read"


async def test_read_at_the_end_of_the_log_reads_no_header(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store()
    append_many(store, 5, 300)
    store.read_batches(0, 1 << 20, store.log_end_offset)
    device = ColdDevice(range(0))
    monkeypatch.setattr(disk, "preadv", device.preadv)
    for _ in range(5):
        offset = store.log_end_offset
        (batch,) = append_many(store, 1, 300)
        assert slice_bytes(store.read_batches(offset, 1 << 20, store.log_end_offset)) == batch
    assert device.asked == []


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS])
def test_read_into_on_a_file_system_without_nowait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    refused: list[int] = []

    def preadv(fd: int, buffers: Sequence[bytearray], position: int, flags: int = 0) -> int:
        if flags:
            refused.append(flags)
            raise OSError(number, os.strerror(number))
        return os.preadv(fd, buffers, position)

    monkeypatch.setattr(disk, "preadv", preadv)
    path = tmp_path / "file"
    path.write_bytes(b"content")
    log = LogFile(str(path), os.O_RDONLY)
    for _ in range(3):
        buffer = bytearray(7)
        assert log.read_into(buffer, 0, wait=False) == 7
        assert buffer == b"content"
    assert len(refused) == 1, "it is asked once"
    assert log.resident(0, 7)


def test_read_into_raises_other_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def preadv(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "file"
    path.write_bytes(b"content")
    log = LogFile(str(path), os.O_RDONLY)
    monkeypatch.setattr(disk, "preadv", preadv)
    for wait in (False, True):
        with pytest.raises(OSError, match="Input/output"):
            log.read_into(bytearray(7), 0, wait)


@pytest.mark.parametrize(
    ("resident", "expected"),
    [
        (range(1 << 20), True),
        (range(300_001), True),
        (range(300_000), False),
        (range(1, 1 << 20), False),
        (range(PROBE_STRIDE_BYTES), False),
    ],
)
def test_resident_samples_from_the_first_byte_to_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resident: range, expected: bool
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (1 << 20))
    log = LogFile(str(path), os.O_RDONLY)
    device = ColdDevice(resident)
    monkeypatch.setattr(disk, "preadv", device.preadv)
    assert log.resident(0, 300_001) is expected
    assert len(device.asked) <= 6


async def test_prefetch_ends_at_the_end_of_the_file(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store()
    append_many(store, 3, 300_000)
    (region,) = store.read_batches(0, 1 << 30, store.log_end_offset, wait=True).regions
    assert isinstance(region, FileRegion)
    region.file.prefetch(0, region.size)
    region.file.prefetch(region.size - 10, 1 << 40)
    assert region.file.resident(0, region.size)
