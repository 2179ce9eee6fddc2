"""Offsets by time: against a search of every record, whatever the codec and the kind of timestamp."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import StorageError
from tidelog.kernel.log import AppendOrigin, UnifiedLog
from tidelog.kernel.records.batch import HEADER_BYTES, BatchHeader, pack_batch, parse_header
from tidelog.kernel.seams.partition import TimestampOffset
from tidelog.kernel.testing import FakeClock, make_batch

from .compacted import LEFT_KINDS, LeftBatch, LeftKind, check_lookups, left_by_compaction
from .parts import batch_of, compressed, open_partition

BASE = 1_600_000_000_000
SMALL_SEGMENTS = TopicConfig({"segment.bytes": 500})

batches = st.lists(
    st.tuples(st.integers(0, 4), st.lists(st.integers(0, 50), min_size=1, max_size=5)), max_size=10
)


def filled(history: list[tuple[int, list[int]]]) -> tuple[UnifiedLog, list[tuple[int, int]]]:
    """A partition with these batches (codec, timestamps) and (timestamp, offset) of its records."""
    partition = open_partition(config=SMALL_SEGMENTS)
    records: list[tuple[int, int]] = []
    for codec, times in history:
        batch = make_batch([b"v"] * len(times), timestamps=[BASE + time for time in times])
        first = partition.append_nowait(compressed(batch, codec)).base_offset
        records += [(BASE + time, first + index) for index, time in enumerate(times)]
    return partition, records


@given(batches, st.integers(-2, 52))
def test_offset_for_timestamp_returns_the_first_record_at_or_after_it(
    history: list[tuple[int, list[int]]], time: int
) -> None:
    partition, records = filled(history)
    expected = next((record for record in records if record[0] >= BASE + time), None)
    found = partition.offset_for_timestamp(BASE + time)
    assert (found and found[:2]) == expected


@given(batches)
def test_offset_of_max_timestamp_returns_its_first_record(history: list[tuple[int, list[int]]]) -> None:
    partition, records = filled(history)
    newest = max((time for time, _ in records), default=None)
    expected = next((record for record in records if record[0] == newest), None)
    found = partition.offset_of_max_timestamp()
    assert (found and found[:2]) == expected


@given(batches, st.integers(-2, 52), st.floats(0, 1))
def test_offset_for_timestamp_ignores_records_below_the_log_start_offset(
    history: list[tuple[int, list[int]]], time: int, share: float
) -> None:
    """A log may start in the middle of a batch, whose first records nobody can read any more."""
    partition, records = filled(history)
    start = int(partition.log_end_offset * share)
    partition.raise_log_start(start)
    left = [record for record in records if record[1] >= start]
    found = partition.offset_for_timestamp(BASE + time)
    assert (found and found[:2]) == next((record for record in left if record[0] >= BASE + time), None)
    if all(header.base_offset >= start for header in partition.store.headers(start)):
        newest = max((stamp for stamp, _ in left), default=None)
        found = partition.offset_of_max_timestamp()
        assert (found and found[:2]) == next((record for record in left if record[0] == newest), None)


@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_offset_for_timestamp_in_a_batch_that_contains_the_log_start_offset(kind: str) -> None:
    clock = FakeClock(BASE + 5)
    partition = open_partition(config=TopicConfig({"message.timestamp.type": kind}), clock=clock)
    partition.append_nowait(make_batch([b"v"] * 4, timestamps=BASE + 5))
    partition.raise_log_start(2)
    assert partition.offset_for_timestamp(BASE) == TimestampOffset(BASE + 5, 2, 0)
    partition.raise_log_start(4)
    assert partition.offset_for_timestamp(BASE) is None
    assert partition.offset_of_max_timestamp() is None


def test_offset_for_timestamp_returns_the_leader_epoch_of_the_batch() -> None:
    partition = open_partition()
    for epoch in (0, 3, 5):
        partition.leader_epoch = epoch
        partition.append_nowait(make_batch([b"v"] * 2, timestamps=[BASE + epoch] * 2))
    assert partition.offset_for_timestamp(BASE + 1) == TimestampOffset(BASE + 3, 2, 3)
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE + 5, 4, 5)


def test_offset_for_timestamp_with_log_append_time() -> None:
    """All its records have the same time, so the first of them is meant."""
    clock = FakeClock(BASE)
    partition = open_partition(config=TopicConfig({"message.timestamp.type": "LogAppendTime"}), clock=clock)
    for codec in (0, 4):
        clock.advance(10)
        partition.append_nowait(compressed(make_batch([b"v"] * 3, timestamps=[1, 2, 3]), codec))
    assert partition.offset_for_timestamp(BASE) == TimestampOffset(BASE + 10, 0, 0)
    assert partition.offset_for_timestamp(BASE + 11) == TimestampOffset(BASE + 20, 3, 0)
    assert partition.offset_for_timestamp(BASE + 21) is None
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE + 20, 3, 0)


def nonsense(codec: int, records: bytes) -> bytearray:
    """A batch that is intact as far as header and CRC go, with records that are none."""
    header = parse_header(make_batch([b"v"] * 3, timestamps=BASE))
    return pack_batch(header._replace(attributes=codec), records)


@for_each(
    ("codec", "records"),
    [
        (0, b"\xff" * 40),
        (0, bytes(40)),
        (1, b"no gzip"),
        (4, b"no zstd"),
        (2, b"\x80\x80\x80\x80\x0f"),
        (0, b"\x0c\0\0\xfe\xff\x0f\1\1\0" * 5),
    ],
)
def test_offset_for_timestamp_of_unreadable_records_is_the_base_offset(codec: int, records: bytes) -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(2))
    partition.append_nowait(nonsense(codec, records), origin=AppendOrigin.COORDINATOR)
    assert partition.offset_for_timestamp(0) == TimestampOffset(FakeClock().now_ms, 0, 0)
    partition = open_partition()
    partition.append_nowait(nonsense(codec, records), origin=AppendOrigin.COORDINATOR)
    assert partition.offset_for_timestamp(0) == TimestampOffset(BASE, 0, 0)
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE, 0, 0)


@given(st.binary(min_size=21, max_size=60), st.sampled_from([0, 0, 1, 2, 3, 4]))
def test_offset_for_timestamp_is_within_the_batch(records: bytes, codec: int) -> None:
    partition = open_partition()
    partition.append_nowait(batch_of(2))
    partition.append_nowait(nonsense(codec, records), origin=AppendOrigin.COORDINATOR)
    for found in (partition.offset_for_timestamp(BASE), partition.offset_of_max_timestamp()):
        assert found is not None
        assert 0 <= found.offset < 5
        assert -(2**63) <= found.timestamp_ms < 2**63


def test_offset_for_timestamp_ends_at_an_unreadable_record() -> None:
    plain = make_batch([b"v"] * 3, timestamps=BASE)
    size = (len(plain) - HEADER_BYTES) // 3
    header = parse_header(plain)._replace(max_timestamp=BASE + 9)
    records = plain[HEADER_BYTES : HEADER_BYTES + size] + b"\xff" * (2 * size)
    partition = open_partition()
    partition.append_as_follower(pack_batch(header, records))
    assert partition.offset_for_timestamp(BASE) == TimestampOffset(BASE, 0, 0)
    assert partition.offset_for_timestamp(BASE + 1) == TimestampOffset(BASE + 9, 1, 0)
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE + 9, 1, 0)


def test_offset_for_timestamp_of_a_batch_with_a_wrong_max_timestamp() -> None:
    partition = open_partition()
    header = parse_header(make_batch([b"v"] * 3, timestamps=BASE))
    records = make_batch([b"v"] * 3, timestamps=BASE)[HEADER_BYTES:]
    partition.append_nowait(pack_batch(header._replace(max_timestamp=BASE + 99), records))
    assert partition.offset_for_timestamp(BASE) == TimestampOffset(BASE, 0, 0)
    assert partition.offset_for_timestamp(BASE + 50) is None
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE, 0, 0)
    partition.append_nowait(make_batch([b"v"], timestamps=BASE + 60))
    assert partition.offset_for_timestamp(BASE + 50) == TimestampOffset(BASE + 60, 3, 0)


# What compaction leaves


@pytest.mark.parametrize("kind", LEFT_KINDS)
def test_offset_for_timestamp_skips_a_batch_without_records(kind: LeftKind) -> None:
    emptied = LeftBatch(kind, codec=0, spans=3, left={}, promised=BASE + 50)
    partition, _ = left_by_compaction([emptied, emptied])
    assert partition.offset_for_timestamp(BASE) is None
    assert partition.offset_of_max_timestamp() is None
    record = LeftBatch("create time", codec=0, spans=1, left={0: BASE + 10}, promised=BASE + 10)
    partition, _ = left_by_compaction([emptied, record, emptied])
    assert partition.offset_for_timestamp(BASE + 5) == TimestampOffset(BASE + 10, 3, 0)
    assert partition.offset_for_timestamp(BASE + 11) is None
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE + 10, 3, 0)


def test_offset_for_timestamp_skips_segments_with_a_lower_max_timestamp() -> None:
    emptied = LeftBatch("create time", codec=0, spans=1, left={}, promised=BASE + 50)
    early = LeftBatch("create time", codec=0, spans=1, left={0: BASE}, promised=BASE)
    late = LeftBatch("create time", codec=0, spans=1, left={0: BASE + 50}, promised=BASE + 50)
    partition, _ = left_by_compaction([emptied, *[early] * 40, late])
    store = partition.store
    promising = [view.base_offset for view in store.segments() if view.max_timestamp == BASE + 50]
    assert len(promising) == 2 < len(store.segments())
    begun: list[int] = []
    headers = store.headers

    def noted(from_offset: int) -> Iterator[BatchHeader]:
        begun.append(from_offset)
        return headers(from_offset)

    store.headers = noted  # type: ignore[method-assign]
    assert partition.offset_for_timestamp(BASE + 50) == TimestampOffset(BASE + 50, 41, 0)
    # Behind the emptied batch, in its segment, and then in the last one.
    assert begun == [1, promising[1]]


@pytest.mark.parametrize("between", [0, 20])
def test_offset_of_max_timestamp_of_two_records(between: int) -> None:
    """Also when the later one is in a batch, or a segment, that promises more and is looked at before."""
    first = LeftBatch("create time", codec=0, spans=1, left={0: BASE + 10}, promised=BASE + 10)
    early = LeftBatch("create time", codec=0, spans=1, left={0: BASE}, promised=BASE)
    boastful = LeftBatch("create time", codec=0, spans=1, left={0: BASE + 10}, promised=BASE + 50)
    partition, _ = left_by_compaction([early, first, *[early] * between, boastful])
    assert (len(partition.store.segments()) > 1) == (between > 0)
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE + 10, 1, 0)


def test_offset_for_timestamp_of_a_batch_without_its_first_record() -> None:
    partition, _ = left_by_compaction([LeftBatch("append time", 0, 5, {3: BASE, 4: BASE}, BASE)])
    assert partition.offset_for_timestamp(BASE) == TimestampOffset(BASE, 3, 0)
    assert partition.offset_of_max_timestamp() == TimestampOffset(BASE, 3, 0)


left_batches = st.builds(
    LeftBatch,
    kind=st.sampled_from(LEFT_KINDS),
    codec=st.integers(0, 4),
    spans=st.just(5),
    left=st.dictionaries(st.integers(0, 4), st.integers(BASE, BASE + 50), max_size=5),
    promised=st.integers(BASE, BASE + 60),
)


@given(st.lists(left_batches, max_size=8), st.integers(-2, 62), st.floats(0, 1))
def test_offset_for_timestamp_after_compaction(history: list[LeftBatch], time: int, share: float) -> None:
    """Against a search of every record, with a log start anywhere."""
    partition, records = left_by_compaction(history)
    partition.raise_log_start(int(partition.log_end_offset * share))
    check_lookups(partition, records, BASE + time)


@pytest.mark.parametrize(
    ("search", "method"),
    [
        (lambda partition: partition.offset_for_timestamp(BASE), "batch_at_timestamp"),
        (UnifiedLog.offset_of_max_timestamp, "batch_of_max_timestamp"),
        (lambda partition: partition.offset_for_timestamp(BASE), "headers"),
        (UnifiedLog.offset_of_max_timestamp, "headers"),
    ],
)
def test_offset_for_timestamp_and_offset_of_max_timestamp_report_a_disk_error(
    search: Callable[[UnifiedLog], object], method: str
) -> None:
    emptied = LeftBatch("create time", codec=0, spans=3, left={}, promised=BASE + 50)
    partition, _ = left_by_compaction([emptied] * 2)

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    setattr(partition.store, method, refuse)
    with pytest.raises(StorageError, match=r"flights-3 cannot be read: .*Input/output error"):
        search(partition)
