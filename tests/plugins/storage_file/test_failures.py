"""When the disk refuses: a clear error, nothing lost, nothing called durable that is not."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import pytest

from tests.plugins.storage_file.files import CLEAN_MARK, LogDirectoryHarness
from tidelog.kernel import disk
from tidelog.kernel.errors import StorageError
from tidelog.kernel.records.batch import Buffer
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.storage.harness import append, append_many, read_all, read_bytes
from tidelog.plugins.storage_file.partition_store import FilePartitionStore
from tidelog.plugins.storage_file.testing import FailingDisk

SETTINGS = {"segment_bytes": 20_000, "index_interval_bytes": 0}


def failing(number: int) -> Callable[..., int]:
    """An operation that the disk refuses."""

    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def state_of(store: PartitionStore) -> tuple[int, int, int, bytes]:
    return store.log_start_offset, store.log_end_offset, store.size_bytes, read_all(store)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
async def test_an_append_that_the_disk_refuses_did_not_happen(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 5, 100)
    before = state_of(store)
    monkeypatch.setattr(disk, "pwrite", failing(number))
    for _ in range(3):
        with pytest.raises(OSError, match=os.strerror(number)):
            append(store, 100)
        assert state_of(store) == before
    monkeypatch.undo()
    batch = append(store, 100)
    assert state_of(store) == (0, 6, before[2] + len(batch), before[3] + batch)


@pytest.mark.parametrize("part", [1, 60, 61, 150])
async def test_append_completes_a_short_write(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    store = await harness.open_store()
    first = append(store)

    def write_a_part(fd: int, data: Buffer, position: int) -> int:
        return os.pwrite(fd, bytes(data)[:part], position)

    monkeypatch.setattr(disk, "pwrite", write_a_part)
    second = append(store, 100)
    monkeypatch.undo()
    assert read_all(store) == first + second


async def test_a_disk_that_fills_up_in_the_middle_of_a_batch_leaves_no_part_of_it(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store()
    first = append(store)
    calls: list[int] = []

    def write_a_part_then_refuse(fd: int, data: Buffer, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.pwrite(fd, bytes(data)[:70], position)

    monkeypatch.setattr(disk, "pwrite", write_a_part_then_refuse)
    with pytest.raises(OSError, match="No space left"):
        append(store, 100)
    monkeypatch.undo()
    assert calls == [len(first), len(first) + 70]
    assert harness.log_files()[0].read_bytes() == first
    second = append(store, 5)
    assert read_all(store) == first + second


async def test_what_could_not_be_cut_back_is_written_over_and_never_read(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = await harness.open_store()
    first = append(store)

    def write_then_refuse(fd: int, data: Buffer, position: int) -> int:
        os.pwrite(fd, data, position)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk, "pwrite", write_then_refuse)
    monkeypatch.setattr(disk, "ftruncate", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        append(store, 1000)
    monkeypatch.undo()
    assert "could not be truncated to" in caplog.text
    assert read_all(store) == first
    second = append(store, 5)
    assert read_all(store) == first + second
    await harness.close()
    assert harness.log_files()[0].read_bytes() == first + second


async def test_no_room_for_an_index_entry_refuses_the_append(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(**SETTINGS)
    append(store)
    before = state_of(store)
    monkeypatch.setattr(disk, "write_all", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        append(store)
    assert state_of(store) == before
    monkeypatch.undo()
    append_many(store, 5)
    assert read_bytes(store, 5)


@pytest.mark.parametrize("created_ahead", [False, True])
async def test_a_roll_that_the_disk_refuses_did_not_happen(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, created_ahead: bool
) -> None:
    if not created_ahead:
        monkeypatch.setattr(harness.tasks, "in_thread", lambda *_: None)
    await harness.reopen()
    store = await harness.open_store(**SETTINGS)
    append_many(store, 3, 6000)
    await harness.tasks.wait_for_jobs()
    before, names = state_of(store), harness.names()
    assert any(name.endswith(".next.deleted") for name in names) is created_ahead
    monkeypatch.setattr(disk, "open_file", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        append(store, 6000)
    assert harness.names() == names
    monkeypatch.undo()
    assert state_of(store) == before
    append(store, 6000)
    assert [view.base_offset for view in store.segments()] == [0, 3]
    assert read_bytes(store, 3)


@pytest.mark.parametrize("operation", ["fsync", "sync_data"])
async def test_after_a_failed_flush_nothing_is_taken_for_durable(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    store = await harness.open_store()
    append_many(store, 3)
    assert store.flush() == 3
    other = await harness.storage.open_partitions([harness.spec(partition=1)])
    append(store)
    append(other[0])
    monkeypatch.setattr(disk, operation, failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        (store.flush if operation == "sync_data" else other[0].flush)()
    monkeypatch.undo()
    failed, healthy = (store, other[0]) if operation == "sync_data" else (other[0], store)
    # The system has dropped what it could not write and would report success now.
    for refused in (failed.flush, lambda: append(failed), failed.close):
        with pytest.raises(OSError, match="an earlier flush failed"):
            refused()
    append(healthy)
    healthy.flush()
    assert read_all(failed)
    with pytest.raises(StorageError, match="an earlier flush failed"):
        await harness.close()
    assert not (harness.log_dir / CLEAN_MARK).exists()


async def test_a_file_that_cannot_be_opened_for_a_flush_may_be_flushed_later(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store()
    append(store)
    monkeypatch.setattr(disk, "open_file", failing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        store.flush()
    monkeypatch.undo()
    append(store)
    assert store.flush() == 2


async def test_a_storage_that_cannot_close_properly_is_not_marked_clean(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = await harness.storage.open_partitions([harness.spec(partition=number) for number in range(2)])
    contents = [append(store, 100) for store in stores]
    monkeypatch.setattr(disk, "rename", failing(errno.EROFS))
    with pytest.raises(
        StorageError, match=r"not everything could be closed properly: .*Read-only file system"
    ):
        await harness.close()
    monkeypatch.undo()
    assert not (harness.log_dir / CLEAN_MARK).exists()
    await harness.open_again()
    assert not harness.storage.clean_start
    stores = await harness.storage.open_partitions([harness.spec(partition=number) for number in range(2)])
    assert [read_all(store) for store in stores] == contents


async def test_segments_that_cannot_be_deleted_stay(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store(segment_bytes=1000)
    content = append_many(store, 10, 600)
    monkeypatch.setattr(disk, "rename", failing(errno.EROFS))
    with pytest.raises(OSError, match="Read-only"):
        store.delete_segments_before(5)
    assert store.log_start_offset == 0
    assert read_all(store) == b"".join(content)
    monkeypatch.undo()
    assert len(store.delete_segments_before(5)) == 5
    assert read_all(store) == b"".join(content[5:])


@pytest.mark.parametrize("after", range(20))
async def test_segments_of_which_some_files_cannot_be_renamed_stay_and_can_be_deleted_later(
    harness: LogDirectoryHarness, after: int
) -> None:
    store = await harness.open_store(segment_bytes=1000)
    assert isinstance(store, FilePartitionStore)
    content = append_many(store, 10, 600)
    full = FailingDisk()
    full.refuse(errno.ENOSPC, ["rename"], after=after, times=1)
    with full.installed(), pytest.raises(OSError, match="No space left"):
        store.delete_segments_before(5)
    gone = after // 4
    assert [view.base_offset for view in store.segments()] == [*range(gone, 10)]
    for offset in range(gone, 10):
        assert read_bytes(store, offset) == content[offset]
    # The descriptors are released, so that reading opens the files.
    for _ in range(2):
        store.release_idle()
    for offset in range(gone, 10):
        assert read_bytes(store, offset) == content[offset]
    assert {int(path.name[:20]) for path in harness.log_dir.glob("topic-0/*.deleted")} <= {*range(gone)}
    assert len(store.delete_segments_before(5)) == 5 - gone
    await harness.reopen()
    store = await harness.open_store(segment_bytes=1000)
    assert read_all(store) == b"".join(content[5:])


async def test_a_segment_unlinked_by_hand_is_an_error_of_its_reader_alone(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(segment_bytes=1000)
    content = append_many(store, 10, 600)
    await harness.reopen()
    store = await harness.open_store(segment_bytes=1000)
    harness.log_files()[3].unlink()
    with pytest.raises(FileNotFoundError):
        store.read_batches(3, 1000, store.log_end_offset, wait=True)
    assert read_bytes(store, 4) == content[4]
    content.append(append(store, 600))
    assert read_bytes(store, 10) == content[10]


async def test_write_side_file_replaces_the_whole_file_or_nothing(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store()
    store.write_side_file("leader-epoch-checkpoint", b"old")
    names = harness.names()
    for operation in ("pwrite", "fsync", "rename"):
        monkeypatch.setattr(disk, operation, failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left"):
            store.write_side_file("leader-epoch-checkpoint", b"new")
        monkeypatch.undo()
        assert store.read_side_file("leader-epoch-checkpoint") == b"old"
        assert harness.names() == names
