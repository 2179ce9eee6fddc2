"""Reading: bounds, isolation, sizes, and leader epochs that are too old or too new."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.kernel.config import TopicConfig
from tidelog.kernel.errors import OffsetOutOfRange
from tidelog.kernel.log import Isolation, UnifiedLog

from .parts import batch_of, content, offsets_in, open_partition

COMMITTED, UNCOMMITTED = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
PLENTY = 2**31 - 1
TEN_BYTES = len(batch_of(10))


def filled(batches: int = 5, records: int = 10) -> UnifiedLog:
    """A partition with batches of that many records, in small segments."""
    partition = open_partition(config=TopicConfig({"segment.bytes": 2 * TEN_BYTES}))
    for _ in range(batches):
        partition.append_nowait(batch_of(records))
    return partition


@for_each(
    ("offset", "found"),
    [
        (0, [0, 10, 20, 30, 40]),
        (5, [0, 10, 20, 30, 40]),
        (9, [0, 10, 20, 30, 40]),
        (10, [10, 20, 30, 40]),
        (19, [10, 20, 30, 40]),
        (20, [20, 30, 40]),
        (49, [40]),
        (50, []),
    ],
)
def test_read_starts_with_the_batch_of_the_offset(offset: int, found: list[int]) -> None:
    assert offsets_in(filled().read(offset, PLENTY, UNCOMMITTED)) == found


@pytest.mark.parametrize("offset", [-1, 51, 2**62, -(2**62)])
def test_read_out_of_range(offset: int) -> None:
    with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is not between log start 0 and log end 50"):
        filled().read(offset, PLENTY, UNCOMMITTED)


def test_read_below_the_log_start_offset_is_out_of_range() -> None:
    partition = filled()
    partition.raise_log_start(20)
    assert partition.log_start_offset == 20
    assert offsets_in(partition.read(20, PLENTY, UNCOMMITTED)) == [20, 30, 40]
    with pytest.raises(OffsetOutOfRange, match="log start 20"):
        partition.read(19, PLENTY, UNCOMMITTED)


def test_read_at_the_end_of_an_empty_log() -> None:
    partition = open_partition()
    assert partition.read(0, PLENTY, UNCOMMITTED).size == 0
    with pytest.raises(OffsetOutOfRange):
        partition.read(1, PLENTY, UNCOMMITTED)


@pytest.mark.parametrize("max_bytes", [-5, 0, 1, TEN_BYTES - 1, TEN_BYTES])
def test_read_returns_the_first_batch_whole_even_beyond_max_bytes(max_bytes: int) -> None:
    assert content(filled().read(10, max_bytes, UNCOMMITTED)) == content(
        filled(2).read(10, PLENTY, UNCOMMITTED)
    )


@pytest.mark.parametrize("extra", [1, 60, 61, TEN_BYTES - 1])
def test_read_returns_at_most_max_bytes(extra: int) -> None:
    """The last batch may be cut short: every client skips what is not whole."""
    log = filled().read(0, TEN_BYTES + extra, UNCOMMITTED)
    assert TEN_BYTES <= log.size <= TEN_BYTES + extra
    assert offsets_in(log) == [0]


@pytest.mark.parametrize(("isolation", "found"), [(UNCOMMITTED, [0, 10, 20, 30]), (COMMITTED, [0, 10])])
def test_read_is_bounded_by_the_isolation(isolation: Isolation, found: list[int]) -> None:
    partition = filled()
    partition.watermarks.high_watermark, partition.watermarks.last_stable_offset = 40, 20
    assert partition.readable_end(isolation) == found[-1] + 10
    assert offsets_in(partition.read(0, PLENTY, isolation)) == found
    assert partition.read(found[-1] + 10, PLENTY, isolation).size == 0


def test_read_between_readable_end_and_log_end_offset_is_empty() -> None:
    partition = filled()
    partition.watermarks.high_watermark = partition.watermarks.last_stable_offset = 20
    for offset in (20, 25, 49, 50):
        assert partition.read(offset, PLENTY, UNCOMMITTED).size == 0
    with pytest.raises(OffsetOutOfRange):
        partition.read(51, PLENTY, UNCOMMITTED)
