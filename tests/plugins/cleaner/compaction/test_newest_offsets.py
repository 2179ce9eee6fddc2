"""Of each key the newest record stays, of those that were surveyed."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.cleaner.compaction.blocks import block_of
from tidelog.kernel.records.batch import DELETE_HORIZON_BIT, HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.block import RecordBlock
from tidelog.kernel.records.columns import Column
from tidelog.kernel.records.placed import PlacedBatch
from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.compaction import newest_offsets
from tidelog.plugins.cleaner.compaction.keep_newest import KeepNewest
from tidelog.plugins.cleaner.compaction.newest_offsets import NewestOffsets
from tidelog.plugins.cleaner.compaction.offset_map import SLOT_BYTES, OffsetMap


def test_survey_tells_the_first_offset_without_room() -> None:
    newest = NewestOffsets(0, 2 * SLOT_BYTES, 1)
    assert newest.survey(block_of([b"a", None, b"b", b"a"], base_offset=10)) is None
    assert newest.survey(block_of([None, b"b", None, b"c", b"a"], base_offset=20)) == 23
    assert newest.keep(block_of([b"a", b"b"], base_offset=20)).tolist() == [True, True]
    assert newest.keep(block_of([b"a", b"b"], base_offset=19)).tolist() == [True, False]


def test_keep_newest_is_sent_empty_and_does_the_same() -> None:
    found: KeepNewest = pickle.loads(pickle.dumps(KeepNewest(0, 2 * SLOT_BYTES, 1)))
    old, new = block_of([b"a", b"a"]), block_of([b"a", b"b", b"c"], base_offset=2)
    assert (found.survey(old), found.survey(new)) == (None, 4)
    assert [[*found.keep(block)] for block in (old, new)] == [[False, False], [True, True, True]]
    assert found.drops(np.array([0, 2]), np.array([1, 3])).tolist() == [True, False]
    assert found.counts() == {"records without a key": 0, "share of the buffer filled": 1}


def test_keep_counts_records_without_a_key_and_drops_them() -> None:
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    block = block_of([None, b"", None])
    assert newest.survey(block) is None
    assert newest.keep(block).tolist() == [False, True, False]
    assert newest.counts() == {"records without a key": 2, "share of the buffer filled": 0.1}


def test_keep_keeps_tombstones_and_keys_that_were_not_surveyed() -> None:
    newest = NewestOffsets(2**62, 10 * SLOT_BYTES, 1)
    assert newest.survey(block_of([b"a", b"b"], [None, b"x"], base_offset=5)) is None
    old = block_of([b"a", b"b", b"c", b"d"], [b"1", b"1", b"1", None])
    assert newest.keep(old).tolist() == [False, False, True, True]
    assert newest.keep(block_of([b"a", b"b"], [None, b"x"], base_offset=5)).tolist() == [True, True]


keys = st.lists(st.none() | st.sampled_from([b"a", b"b", b"c", b"d", b"e"]), min_size=1, max_size=6)
gaps = st.integers(0, 5)


@given(
    surveyed=st.lists(st.tuples(gaps, keys), max_size=6),
    older=keys,
    marked=st.sampled_from([0, 1, 4, 9, 100]),
    room=st.sampled_from([1, 3, 100]),
    at_once=st.sampled_from([8, 64, 2**18]),
)
def test_keep_goes_by_the_newest_offset_of_each_key_however_much_is_remembered(
    surveyed: Sequence[tuple[int, list[bytes | None]]],
    older: list[bytes | None],
    marked: int,
    room: int,
    at_once: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(newest_offsets, "MARKED_OFFSETS", marked)
        patch.setattr(newest_offsets, "_OFFSETS_AT_ONCE", at_once)
        newest = NewestOffsets(0, room * SLOT_BYTES, 1)
        blocks = [(block_of(older), older)]
        known: dict[bytes, int] = {}
        offset = 1000
        until = None
        for gap, chosen in surveyed:
            offset += gap
            blocks.append((block_of(chosen, base_offset=offset), chosen))
            if until is None:
                until = newest.survey(blocks[-1][0])
                end = offset + len(chosen) if until is None else until
                places = zip(range(offset, end), chosen, strict=False)
                known.update({key: at for at, key in places if key is not None})
            offset += len(chosen)
        for block, chosen in blocks:
            offsets = block.offset.tolist()
            expected = [
                key is not None and at >= known.get(key, 0) for at, key in zip(offsets, chosen, strict=True)
            ]
            assert newest.keep(block).tolist() == expected
        for (block, _), dropped in zip(blocks, drops(newest, *(block for block, _ in blocks)), strict=True):
            assert not dropped or not newest.keep(block).any()


def drops(newest: NewestOffsets, *blocks: RecordBlock) -> list[bool]:
    """Which batches would be dropped whole, of blocks with one each."""
    headers = [block.headers[0] for block in blocks]
    base_offsets = np.array([header.base_offset for header in headers], np.int64)
    last_offsets = np.array([header.last_offset for header in headers], np.int64)
    found: list[bool] = newest.drops(base_offsets, last_offsets).tolist()
    return found


def test_drops_batches_of_which_every_offset_was_surveyed_and_has_a_newer_one() -> None:
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    kept = block_of([b"c", b"a"], base_offset=14)
    for block in (block_of([b"a", b"b"], base_offset=10), block_of([b"b", b"a"], base_offset=12), kept):
        assert newest.survey(block) is None
    batches = [
        block_of([b"a", b"b"], base_offset=8),
        block_of([b"a", b"b"], base_offset=10),
        block_of([b"b", b"a"], base_offset=12),
        kept,
        block_of([b"a"], base_offset=16),
    ]
    assert drops(newest, *batches) == [False, True, False, False, False]
    assert drops(newest, batches[1]) == [True]
    assert drops(newest) == []


@pytest.mark.parametrize("size", [1, 2, 8, 9])
def test_drops_no_batch_with_the_newest_record_of_a_key_wherever_it_is(size: int) -> None:
    for place in range(size):
        newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
        keys = [b"newest" if each == place else b"older" for each in range(size)]
        for base_offset in (10, 10 + size):
            assert newest.survey(block_of([b"older"] * size, base_offset=base_offset)) is None
        block = block_of(keys, base_offset=10 + 2 * size)
        behind = block_of([b"older"], base_offset=10 + 3 * size)
        assert [newest.survey(each) for each in (block, behind)] == [None, None]
        before = [block_of([b"older"] * size, base_offset=base) for base in (10, 10 + size)]
        assert drops(newest, *before, block, behind) == [True, True, False, False]
        assert drops(newest, block) == [False]


def test_drops_takes_no_memory_for_each_offset_of_a_range() -> None:
    newest = NewestOffsets(0, 2400, 0.9)
    newest.survey(block_of([b"a"]))
    assert newest.drops(np.zeros(1, np.int64), np.zeros(1, np.int64)).tolist() == [False]
    tracemalloc.start()
    try:
        dropped = newest.drops(np.zeros(1, np.int64), np.full(1, newest_offsets.MARKED_OFFSETS - 1))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert dropped.tolist() == [False]
    assert peak_bytes < newest_offsets.MARKED_OFFSETS / 16


def test_drops_nothing_that_was_not_surveyed() -> None:
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    assert drops(newest, block_of([b"a"])) == [False]


def test_keep_drops_a_tombstone_from_its_delete_horizon_on() -> None:
    batch = make_batch([None, b"value"], keys=[b"a", b"b"])
    header = parse_header(batch)._replace(attributes=DELETE_HORIZON_BIT, base_timestamp=1000)
    batch = pack_batch(header, batch[HEADER_BYTES:])
    block = RecordBlock(bytes(batch), [PlacedBatch(parse_header(batch), 0)])
    for now_ms, stays in [(999, True), (1000, False), (1001, False)]:
        newest = NewestOffsets(now_ms, 10 * SLOT_BYTES, 1)
        assert newest.survey(block) is None
        assert newest.keep(block).tolist() == [stays, True]


def test_keep_goes_through_the_newest_offsets_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be millions, and it is asked for each block of a log."""
    passes: list[None] = []
    offsets = OffsetMap.offsets

    def counted(newest: OffsetMap) -> Iterator[Column]:
        passes.append(None)
        return offsets(newest)

    monkeypatch.setattr(OffsetMap, "offsets", counted)
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    block = block_of([b"a"])
    newest.survey(block)
    for _ in range(3):
        assert newest.keep(block).tolist() == [True]
        assert drops(newest, block) == [False]
    assert len(passes) == 1


def test_drops_batches_wherever_they_are() -> None:
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    blocks = [block_of([b"a"], base_offset=2**40 + far) for far in (0, 300_000, 600_000)]
    assert [newest.survey(block) for block in blocks] == [None] * 3
    assert drops(newest, *blocks) == [True, True, False]
    assert [drops(newest, block) for block in blocks] == [[True], [True], [False]]


@pytest.mark.parametrize("far", [5_000, 300_000, 5_000_000])
def test_keep_knows_the_newest_offsets_however_far_apart_they_are(far: int) -> None:
    newest = NewestOffsets(0, 100 * SLOT_BYTES, 1)
    keys = [b"%d" % number for number in range(24)]
    old, new = block_of(keys, base_offset=1000), block_of(keys[:12], base_offset=1000 + far)
    assert [newest.survey(block) for block in (old, new)] == [None, None]
    assert newest.keep(old).tolist() == [False] * 12 + [True] * 12
    assert newest.keep(new).tolist() == [True] * 12
    assert drops(newest, old, new) == [False, False]


def test_keep_keeps_what_the_survey_left_out() -> None:
    """Nothing goes because of an offset that is among those that were surveyed."""
    newest = NewestOffsets(0, 10 * SLOT_BYTES, 1)
    for base in (5, 7):
        assert newest.survey(block_of([b"a"], base_offset=base)) is None
    assert newest.keep(block_of([b"left out"], base_offset=6)).tolist() == [True]
    assert newest.keep(block_of([b"a"], base_offset=6)).tolist() == [False]
