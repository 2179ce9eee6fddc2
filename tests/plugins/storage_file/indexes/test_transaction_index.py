"""`.txnindex`: its bytes, when there is one, what damage to it does, and how it becomes durable."""

from __future__ import annotations

import gc
import struct
from pathlib import Path

import pytest

from tests.plugins.storage_file.files import IdleTasks, LogDirectoryHarness, append_to, cut, overwrite
from tidelog.kernel import disk
from tidelog.kernel.log import AppendOrigin
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.indexes import IndexPlace
from tidelog.kernel.seams.storage import AbortedTransaction, PartitionStore, WouldBlock
from tidelog.kernel.testing.batches import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.clock import START_MS
from tidelog.kernel.testing.storage.harness import append_many
from tidelog.plugins.storage_file.indexes.transaction_index import CorruptTransactionIndex, TransactionIndex
from tidelog.plugins.storage_file.partition_store import FilePartitionStore

SETTINGS = {"segment_bytes": 500, "index_interval_bytes": 100}
FIRST = AbortedTransaction(producer_id=4711, first_offset=1, last_offset=5, last_stable_offset=3)
SECOND = AbortedTransaction(producer_id=2**62, first_offset=3, last_offset=8, last_stable_offset=9)
FIRST_BYTES = "00000000000000001267000000000000000100000000000000050000000000000003"
SECOND_BYTES = "00004000000000000000000000000000000300000000000000080000000000000009"


def index_of(tmp_path: Path) -> TransactionIndex:
    return TransactionIndex(IndexPlace(str(tmp_path), 0))


def everything(index: TransactionIndex) -> list[AbortedTransaction]:
    found: list[AbortedTransaction] = []
    index.search(0, 2**62, found, wait=True)
    return found


def add_marker(store: PartitionStore, producer_id: int) -> int:
    """Append what says, on its face, that it is a control batch; its offset."""
    offset = store.log_end_offset
    batch = make_batch(
        [b"\0\0\0\0\0\0"],
        offset,
        keys=[b"\0\0\0\0"],
        producer_id=producer_id,
        transactional=True,
        control=True,
    )
    store.append_batch(batch, offset, offset, START_MS)
    return offset


def test_transaction_index_bytes(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    assert index.append(FIRST)
    assert not index.append(SECOND)
    path = tmp_path / "00000000000000000000.txnindex"
    assert path.read_bytes().hex() == FIRST_BYTES + SECOND_BYTES
    assert everything(index) == [FIRST, SECOND]


def test_transaction_index_of_another_broker_is_read(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    Path(index.path).write_bytes(bytes.fromhex(FIRST_BYTES + SECOND_BYTES))
    index.load(end_offset=9)
    assert everything(index) == [FIRST, SECOND]
    assert index.last_offset == 8
    index.truncate_to(8)
    assert Path(index.path).read_bytes().hex() == FIRST_BYTES
    index.truncate_to(0)
    assert Path(index.path).read_bytes() == b""
    assert everything(index) == []


@pytest.mark.parametrize(
    "content",
    [
        bytes.fromhex(FIRST_BYTES)[:-1],
        bytes.fromhex(FIRST_BYTES) + b"\0",
        bytes.fromhex(SECOND_BYTES + FIRST_BYTES),
        bytes.fromhex(FIRST_BYTES + FIRST_BYTES),
        b"\0\1" + bytes.fromhex(FIRST_BYTES)[2:],
        bytes(34),
        struct.pack(">hqqqq", 0, 1, 6, 5, 7),
        struct.pack(">hqqqq", 0, 1, 5, 9, 10),
    ],
    ids=[
        "torn",
        "a byte more",
        "back",
        "twice",
        "version",
        "zeros",
        "ends before it begins",
        "behind the log",
    ],
)
def test_transaction_index_that_is_corrupt_is_refused(tmp_path: Path, content: bytes) -> None:
    index = TransactionIndex(IndexPlace(str(tmp_path), 1))
    Path(index.path).write_bytes(content)
    with pytest.raises(CorruptTransactionIndex, match="txnindex"):
        index.load(end_offset=9)


def test_append_on_a_full_disk_leaves_the_transaction_index_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(tmp_path)
    index.append(FIRST)
    real = disk.pwrite

    def half(fd: int, data: memoryview, position: int) -> int:
        if len(data) == 34:
            return real(fd, data[:10], position)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "pwrite", half)
    with pytest.raises(OSError, match="No space"):
        index.append(SECOND)
    assert Path(index.path).read_bytes().hex() == FIRST_BYTES
    monkeypatch.undo()
    index.append(SECOND)
    assert everything(index) == [FIRST, SECOND]


def test_transaction_index_search_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = index_of(tmp_path)
    index.append(FIRST)
    real = disk.preadv

    def cold(fd: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        if flags:
            raise BlockingIOError
        return real(fd, buffers, position, flags)

    monkeypatch.setattr(disk, "preadv", cold)
    monkeypatch.setattr(disk, "NOWAIT", 8)
    with pytest.raises(WouldBlock):
        index.search(0, 100, [], wait=False)
    assert everything(index) == [FIRST]


async def test_transaction_index_has_no_file_until_something_is_aborted(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 20, 100)
    assert not list(harness.partition_dir.glob("*.txnindex"))
    bases = [segment.base_offset for segment in store.segments()]
    store.add_aborted(AbortedTransaction(1, 0, bases[2], bases[2] + 1))
    assert [path.name for path in harness.partition_dir.glob("*.txnindex")] == [f"{bases[2]:020d}.txnindex"]


async def test_transaction_index_is_deleted_with_its_segment(harness: LogDirectoryHarness) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 20, 100)
    store.add_aborted(AbortedTransaction(1, 0, 1, 2))
    store.delete_segments_before(10)
    assert [path.name for path in harness.partition_dir.glob("*.txnindex*")] == [
        "0" * 20 + ".txnindex.deleted"
    ]


async def test_flush_makes_the_transaction_index_durable(
    harness: LogDirectoryHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await harness.open_store()
    append_many(store, 3)
    store.flush()
    synced: list[str] = []
    real = disk.fsync

    def spy(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    monkeypatch.setattr(disk, "fsync", spy)
    store.add_aborted(AbortedTransaction(1, 0, 1, 2))
    store.flush()
    assert synced == ["0" * 20 + ".txnindex", "topic-0"]
    store.flush()
    assert len(synced) == 2


async def test_transaction_index_that_is_torn_is_rebuilt_and_all_behind_it(
    harness: LogDirectoryHarness,
) -> None:
    store = await harness.open_store(**SETTINGS)
    append_many(store, 20, 100)
    bases = [segment.base_offset for segment in store.segments()]
    for base in bases:
        store.add_aborted(AbortedTransaction(1, base, base, base + 1))
    await harness.close()
    torn = harness.partition_dir / f"{bases[2]:020d}.txnindex"
    cut(torn, 33)
    await harness.open_again()
    store = await harness.open_store(**SETTINGS)
    assert store.aborted_known_until == bases[2]
    # Until what is missing was written again, a crash is followed by a recovery of these segments.
    assert isinstance(store, FilePartitionStore)
    assert store.recovery_point == bases[2]
    assert [entry.last_offset for entry in store.aborted_transactions(0, 100, wait=True)] == bases[:2]
    assert len(list(harness.partition_dir.glob("*.txnindex"))) == 2


@pytest.mark.parametrize("with_markers", [True, False])
async def test_transaction_index_is_rebuilt_after_a_crash_if_the_log_has_markers(
    tmp_path: Path, with_markers: bool
) -> None:
    harness = LogDirectoryHarness(tmp_path, IdleTasks())
    await harness.open()
    store = await harness.open_store()
    append_many(store, 3)
    if with_markers:
        store.add_aborted(AbortedTransaction(1, 0, add_marker(store, 1), 4))
    crashed = harness.crash(tmp_path / "crashed")
    harness.abandon()
    append_to(crashed.log_files()[0].with_suffix(".txnindex"), bytes(34))
    await crashed.open()
    store = await crashed.open_store()
    assert store.aborted_known_until == (0 if with_markers else 3)
    assert not list(store.aborted_transactions(0, 100, wait=True))
    assert not list(crashed.partition_dir.glob("*.txnindex"))
    crashed.abandon()


def test_transaction_index_keeps_only_its_end_in_memory(tmp_path: Path) -> None:
    index = index_of(tmp_path)
    index.append(FIRST)
    gc.collect()  # files that earlier tests left must not be closed in between
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert everything(index) == [FIRST]
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
    overwrite(Path(index.path), 2, (77).to_bytes(8, "big"))
    assert everything(index)[0].producer_id == 77


async def test_transaction_index_that_lost_entries_is_completed_at_start(tmp_path: Path) -> None:
    values = {"storage": "file", "log.dirs": str(tmp_path)}
    async with running_broker(values) as broker:
        await broker.topics.create(TopicSpec("t", 1))
        (partition,) = broker.topics.get("t").partitions
        for producer_id, commit in ((1, False), (2, True), (3, False)):
            batch = make_batch([b"x"], producer_id=producer_id, producer_epoch=0, transactional=True)
            partition.log.append_nowait(batch, in_transaction=True, origin=AppendOrigin.COORDINATOR)
            partition.log.append_marker(producer_id, 0, 0, commit=commit)
        expected = list(partition.log.store.aborted_transactions(0, 100, wait=True))
    assert [(each.producer_id, each.first_offset, each.last_offset) for each in expected] == [
        (1, 0, 1),
        (3, 4, 5),
    ]
    # The marker has the time of now, long after the batch, so the log rolled before it.
    index = tmp_path / "t-0" / f"{1:020d}.txnindex"
    cut(index, 35)
    async with running_broker(values) as broker:
        (partition,) = broker.topics.get("t").partitions
        assert list(partition.log.store.aborted_transactions(0, 100, wait=True)) == expected
    assert len(disk.read_file(index) or b"") == 68
