"""Appending: dense offsets, a header stamped in place, results, and a disk that refuses."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import (
    BatchTooLarge,
    BrokerError,
    CorruptBatch,
    InvalidTransactionState,
    StorageError,
    UnknownTopicOrPartition,
)
from tidelog.kernel.log import AppendResult, Isolation, UnifiedLog, storage_failure
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.records.batch import Buffer, parse_header, verify_crc
from tidelog.kernel.seams.partition import AppendWaiter
from tidelog.kernel.testing import FakeClock, make_batch
from tidelog.plugins.storage_memory.partition_store import MemoryPartitionStore

from .parts import batch_of, content, new_store, offsets_in, open_partition, sent


def read_all(partition: UnifiedLog) -> bytes:
    """Everything in the log."""
    return content(partition.read(partition.log_start_offset, 2**31 - 1, Isolation.READ_UNCOMMITTED))


def bounds(partition: UnifiedLog) -> tuple[int, int, int, int]:
    """Log start, last stable, high watermark, log end."""
    return (
        partition.log_start_offset,
        partition.last_stable_offset,
        partition.high_watermark,
        partition.log_end_offset,
    )


def test_an_empty_partition_begins_at_zero() -> None:
    assert bounds(open_partition()) == (0, 0, 0, 0)


@given(st.lists(st.integers(1, 20), max_size=12))
def test_append_gives_dense_offsets(counts: list[int]) -> None:
    partition = open_partition()
    end = 0
    for count in counts:
        assert partition.append_nowait(batch_of(count)) == AppendResult(end, end + count - 1, -1)
        end += count
        assert bounds(partition) == (0, end, end, end)
        assert partition.store.log_end_offset == end


def test_append_stamps_the_header_in_place() -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(5))
    batch = batch_of(3)
    records, received = bytes(batch[61:]), bytearray(b"before" + batch + b"behind")
    partition.append_nowait(memoryview(received)[6:-6])
    header = parse_header(received, 6)
    assert (header.base_offset, header.leader_epoch) == (5, 0)
    stored = read_all(partition)[len(batch_of(5)) :]
    assert stored == received[6:-6]
    assert verify_crc(stored, parse_header(stored))
    assert stored[61:] == records


def test_what_is_read_is_what_was_stamped() -> None:
    partition = open_partition()
    batches = [batch_of(count) for count in (1, 4, 2)]
    for batch in batches:
        partition.append_nowait(batch)
    assert read_all(partition) == b"".join(batches)
    assert offsets_in(partition.read(0, 10_000, Isolation.READ_COMMITTED)) == [0, 1, 5]


def test_the_receive_buffer_may_be_used_again_after_an_append() -> None:
    partition = open_partition()
    batch = batch_of(1)
    partition.append_nowait(batch)
    expected = bytes(batch)
    batch[:] = bytes(len(batch))
    assert read_all(partition) == expected


def test_append_stamps_the_leader_epoch() -> None:
    partition = open_partition()
    partition.leader_epoch = 7
    batch = batch_of(1)
    partition.append_nowait(batch)
    assert parse_header(batch).leader_epoch == 7
    assert partition.epochs.entries() == [(7, 0)]


def test_append_assigns_a_new_leader_epoch_with_its_first_batch() -> None:
    partition = open_partition()
    assert partition.store.read_side_file("leader-epoch-checkpoint") is None
    for epoch in (0, 0, 3, 3):
        partition.leader_epoch = epoch
        partition.append_nowait(batch_of(10))
    assert partition.store.read_side_file("leader-epoch-checkpoint") == b"0\n2\n0 0\n3 20\n"


def test_append_refuses_transactional_batches_without_a_coordinator() -> None:
    partition = open_partition()
    batch = make_batch(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    with pytest.raises(InvalidTransactionState):
        partition.append_nowait(batch)
    assert bounds(partition) == (0, 0, 0, 0)
    assert partition.producers.entries == {}


def test_take_offline_refuses_append_and_read() -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(1))
    partition.take_offline()
    with pytest.raises(UnknownTopicOrPartition):
        partition.append_nowait(batch_of(1))
    with pytest.raises(UnknownTopicOrPartition):
        partition.read(0, 100, Isolation.READ_UNCOMMITTED)


def test_append_refuses_a_batch_larger_than_a_segment() -> None:
    config = TopicConfig({"segment.bytes": 1000})
    partition = open_partition(config=config)
    with pytest.raises(BatchTooLarge):
        partition.append_nowait(make_batch([b"x" * 1000], producer_id=1, producer_epoch=0, base_sequence=0))
    assert bounds(partition) == (0, 0, 0, 0)
    assert partition.producers.entries == {}
    assert partition.epochs.entries() == []


def test_append_writes_a_producer_snapshot_at_every_roll() -> None:
    partition = open_partition(config=TopicConfig({"segment.bytes": 300}))
    for sequence in range(6):
        partition.append_nowait(sent(1, 0, sequence))
    bases = [segment.base_offset for segment in partition.store.segments()]
    assert len(bases) > 1
    snapshots = [name for name in partition.store.side_files() if name.endswith(".snapshot")]
    assert snapshots == [f"{base:020d}.snapshot" for base in bases[1:]]


class FailingStore(MemoryPartitionStore):
    """A disk that refuses appends while `error` is set."""

    error: OSError | None = None

    def append_batch(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> bool:
        """Refuse, or append."""
        if self.error is not None:
            raise self.error
        return super().append_batch(batch, base_offset, last_offset, max_timestamp)


def state(partition: UnifiedLog) -> object:
    """All that an append may change."""
    return (
        bounds(partition),
        partition.epochs.entries(),
        {
            producer_id: (entry.epoch, list(entry.batches), entry.last_timestamp)
            for producer_id, entry in partition.producers.entries.items()
        },
        read_all(partition),
        list(partition.store.side_files()),
    )


FAILURES: dict[str, Callable[[UnifiedLog], object]] = {
    "plain": lambda partition: partition.append_nowait(batch_of(2)),
    "next of a known producer": lambda partition: partition.append_nowait(sent(1, 0, 5)),
    "new epoch of a producer": lambda partition: partition.append_nowait(sent(1, 1, 0)),
    "first of a producer": lambda partition: partition.append_nowait(sent(2, 0, 0)),
}


@for_each("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
@for_each("append", FAILURES.values(), ids=FAILURES)
def test_append_that_the_disk_refuses_leaves_everything_as_it_was(
    append: Callable[[UnifiedLog], object], code: int
) -> None:
    store = FailingStore(TopicConfig(), FakeClock())
    partition = open_partition(store)
    partition.append_nowait(sent(1, 0, 0, 5))
    woken: list[bool] = []
    partition.add_waiter(AppendWaiter(1, lambda: woken.append(True)))
    partition.leader_epoch = 1
    before = state(partition)
    store.error = OSError(code, "refused")
    with pytest.raises(StorageError, match="flights-3: the disk refused"):
        append(partition)
    assert state(partition) == before
    assert woken == []

    store.error = None
    append(partition)
    assert partition.log_end_offset > 5
    assert partition.epochs.entries() == [(0, 0), (1, 5)]
    assert woken == [True]


class BrokenStore(MemoryPartitionStore):
    """A store whose plugin raises what it may not."""

    def _fail(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("a bug of the plugin")


CALLS: dict[str, Callable[[UnifiedLog], object]] = {
    "append_batch": lambda partition: partition.append_nowait(batch_of(2)),
    "read_batches": lambda partition: partition.read(0, 100, Isolation.READ_UNCOMMITTED),
    "batch_at_timestamp": lambda partition: partition.offset_for_timestamp(0),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_that_a_storage_may_not_raise_is_its_own_and_logged_once(
    name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_failure, "_described", RateLimit(60))
    store = BrokenStore(TopicConfig(), FakeClock())
    partition = open_partition(store)
    partition.append_nowait(batch_of(2))
    caplog.clear()
    with monkeypatch.context() as patched:
        patched.setattr(BrokenStore, name, BrokenStore._fail)  # pyright: ignore[reportPrivateUsage]
        for _ in range(2):
            with pytest.raises(StorageError, match=r"flights-3.*BrokenStore failed in .*a bug of the plugin"):
                CALLS[name](partition)
    (record,) = caplog.records
    assert "flights-3: the storage tests.kernel.log.test_append.BrokenStore failed in" in record.message
    assert record.exc_info
    # After an append nobody knows what the log has.
    assert (partition.offline is not None) == (name == "append_batch")


@given(st.binary(max_size=200))
def test_append_refuses_any_bytes_with_a_broker_error(data: bytes) -> None:
    partition = open_partition()
    with pytest.raises(BrokerError):
        partition.append_nowait(bytearray(data))
    assert bounds(partition) == (0, 0, 0, 0)


@given(at=st.integers(0, 200), bit=st.integers(0, 7))
def test_append_refuses_flipped_bits(at: int, bit: int) -> None:
    """What the CRC covers cannot change; what it does not cover is checked or stamped anew."""
    partition = open_partition()
    batch = batch_of(3)
    at %= len(batch)
    batch[at] ^= 1 << bit
    if 12 <= at < 16:  # the leader epoch, which the broker stamps
        partition.append_nowait(batch)
        assert read_all(partition) == bytes(batch_with_stamp())
        return
    with pytest.raises(BrokerError):
        partition.append_nowait(batch)
    assert partition.log_end_offset == 0


def batch_with_stamp() -> bytearray:
    """The batch of three as an empty log stores it."""
    batch = batch_of(3)
    open_partition().append_nowait(batch)
    return batch


def test_append_refuses_a_corrupt_batch_without_writing_to_the_store() -> None:
    store = new_store()
    partition = open_partition(store)
    partition.append_nowait(batch_of(4))
    size = store.size_bytes
    batch = batch_of(1)
    batch[-1] ^= 1
    with pytest.raises(CorruptBatch):
        partition.append_nowait(batch)
    assert store.size_bytes == size


def test_side_files_of_a_deleted_partition_are_not_written_any_more() -> None:
    """A new topic of the same name may already live in the same place."""
    waiting: list[Callable[[], object]] = []
    partition = open_partition(in_thread=lambda _, job: waiting.append(job))
    partition.append_nowait(batch_of(1))
    assert len(waiting) == 1
    partition.take_offline()
    waiting.pop()()
    assert list(partition.store.side_files()) == []


class FullDiskStore(MemoryPartitionStore):
    """A disk without room for side files."""

    closed = False

    def write_side_file(self, name: str, content: bytes) -> None:
        """Refuse."""
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        """Note that it was called."""
        self.closed = True


def test_a_full_disk_does_not_keep_the_log_from_being_closed(caplog: pytest.LogCaptureFixture) -> None:
    store = FullDiskStore(TopicConfig(), FakeClock())
    partition = open_partition(store, in_thread=lambda _, job: None)
    partition.append_nowait(sent(1, 0, 0))
    partition.close()
    assert store.closed
    assert "flights-3: no snapshot of its producers ([Errno 28] No space left on device)" in caplog.text
