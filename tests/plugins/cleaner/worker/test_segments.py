"""Reading whole batches of a segment, and grouping segments that become one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.kernel.records.message_sets import GZIP, plain_set, wrapper
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import HEADER_BYTES, MAGIC_AT, MAGIC_V2, parse_header, verify_crc
from tidelog.kernel.records.placed import PlacedBatch, PlacedBatches
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.storage import SegmentSource
from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.worker import segments
from tidelog.plugins.cleaner.worker.segments import chosen_chunks, chunks, groups

MOST_SPAN = 2**31 - 1


@attrs.define
class Source:
    """`SegmentSource` with these bytes, or only the promise of them; it notes reads."""

    base_offset: int = 0
    size_bytes: int = 0
    index_bytes: int = 0
    time_index_bytes: int = 0
    content: bytes = b""
    reads: list[int] = attrs.Factory(list)
    needed: list[tuple[int, int]] = attrs.Factory(list)
    closed: bool = False

    def read(self, position: int, size: int) -> bytes:
        """Read some of them."""
        self.reads.append(size)
        return self.content[position : position + size]

    def will_need(self, position: int, size: int) -> None:
        """Note the range."""
        self.needed.append((position, size))

    def close(self) -> None:
        """Note it."""
        self.closed = True


def source_of(batches: Sequence[bytes | bytearray], rest: bytes = b"") -> Source:
    """A segment with these batches."""
    content = b"".join(batches) + rest
    return Source(size_bytes=len(content), content=content)


def some_batches(sizes: Sequence[int]) -> list[bytearray]:
    """Batches with values of these sizes."""
    return [make_batch([bytes(size)], index) for index, size in enumerate(sizes)]


@given(st.lists(st.integers(0, 300), max_size=8), st.integers(0, 900))
def test_chunks_have_all_batches_in_their_order(sizes: list[int], chunk_bytes: int) -> None:
    batches = some_batches(sizes)
    source = source_of(batches)
    found: list[bytes] = []
    for chunk in chunks(source, chunk_bytes):
        assert chunk.batches
        assert chunk.size == sum(each.header.size for each in chunk.batches)
        assert chunk.size <= max(chunk_bytes, HEADER_BYTES) or len(chunk.batches) == 1
        for header, position in chunk.batches:
            found.append(chunk.content[position : position + header.size])
            assert parse_header(found[-1]) == header
    assert found == batches
    assert source.closed
    assert max(source.reads, default=0) <= max(chunk_bytes, HEADER_BYTES, *map(len, batches), 0)


MESSAGE_BATCHES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 40, 300])), max_size=8)


# A chunk that would end in a message, behind another one.
@example([(0, 300), (0, 300)], 500)
@example([(1, 40), (2, 40), (1, 300)], 300)
@given(MESSAGE_BATCHES, st.integers(0, 900))
def test_chunks_have_messages_of_old_formats_as_batches(
    drawn: list[tuple[int, int]], chunk_bytes: int
) -> None:
    batches = [
        plain_set([(7, None, bytes(size) or None)], magic, offset)
        if magic < MAGIC_V2
        else bytes(make_batch([bytes(size)], offset))
        for offset, (magic, size) in enumerate(drawn)
    ]
    found: list[bytes] = []
    for chunk in chunks(source_of(batches), chunk_bytes, 77):
        assert chunk.messages.keys() <= set(range(len(chunk.batches)))
        stored = [bytes(chunk.messages.get(at, chunk.content_of(at))) for at in range(len(chunk.batches))]
        assert chunk.size == sum(map(len, stored))
        for index, (header, position) in enumerate(chunk.batches):
            batch = chunk.content[position : position + header.size]
            assert verify_crc(batch, header)
            (record,) = iter_records(batch, header)
            assert record.offset == header.base_offset == header.last_offset == len(found)
            magic, size = drawn[len(found)]
            assert (magic < MAGIC_V2) == (index in chunk.messages)
            assert header.delete_horizon_ms == (None if magic == MAGIC_V2 else 77)
            assert record.value == (bytes(size) or (None if magic < MAGIC_V2 else b""))
            assert magic == MAGIC_V2 or record.timestamp == (7 if magic else -1)
            found.append(stored[index])
    assert found == batches


def test_chunks_with_messages_end_when_they_are_large_decompressed() -> None:
    inner = plain_set([(7, None, bytes(1 << 20))] * 3, 1)
    messages = [wrapper(inner, 1, GZIP, 3 * number + 2, 7) for number in range(5)]
    found = list(chunks(source_of(messages), 1 << 20))
    assert [len(chunk.batches) for chunk in found] == [2, 2, 1]
    assert [chunk.batches.base_offset.tolist() for chunk in found] == [[0, 3], [6, 9], [12]]


@pytest.mark.parametrize("chunk_bytes", [1, 100, 10_000])
@pytest.mark.parametrize("missing", [1, 9, 25])
def test_chunks_refuse_a_segment_that_ends_in_a_message(missing: int, chunk_bytes: int) -> None:
    messages = plain_set([(7, b"key", b"value" * 20), (7, None, None)], 0)
    content = messages[:-missing]
    source = Source(base_offset=7, size_bytes=len(content), content=content)
    with pytest.raises(CorruptBatch, match=f"the segment at 7 ends in a batch, at byte {len(messages) - 26}"):
        list(chunks(source, chunk_bytes))


def test_chunks_take_as_much_as_fits() -> None:
    batches = some_batches([10] * 7)
    size = len(batches[0])
    for chunk_bytes, counts in [(size * 3, [3, 3, 1]), (size * 4 - 1, [3, 3, 1]), (size * 9, [7])]:
        assert [len(chunk.batches) for chunk in chunks(source_of(batches), chunk_bytes)] == counts


@pytest.mark.parametrize(
    ("least_bytes", "batches_of_chunks"), [(HEADER_BYTES, [1, 4, 4, 3]), (200, [2, 4, 4, 2]), (800, [10, 2])]
)
def test_chunks_of_small_records_are_smaller(
    least_bytes: int, batches_of_chunks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first one they have so many records as are worked on at once, if those are enough bytes."""
    monkeypatch.setattr(segments, "RECORDS_AT_ONCE", 8)
    monkeypatch.setattr(segments, "_LEAST_CHUNK_BYTES", least_bytes)
    batches = [make_batch([b"", b""], 2 * number) for number in range(12)]
    assert len(batches[0]) in range(70, 85)
    found = [len(chunk.batches) for chunk in chunks(source_of(batches), 2**20)]
    assert found == batches_of_chunks


def test_chunks_close_the_source_when_nobody_reads_on() -> None:
    source = source_of(some_batches([10, 10]))
    iterator = chunks(source, 1)
    next(iterator)
    assert not source.closed
    del iterator
    assert source.closed


@pytest.mark.parametrize("chunk_bytes", [1, 100, 10_000])
@pytest.mark.parametrize("missing", [1, 20, 60, 61])
def test_chunks_refuse_a_segment_that_ends_in_a_batch(missing: int, chunk_bytes: int) -> None:
    batches = some_batches([10, 20])
    content = b"".join(batches)[:-missing]
    source = Source(base_offset=7, size_bytes=len(content), content=content)
    with pytest.raises(CorruptBatch, match=f"the segment at 7 ends in a batch, at byte {len(batches[0])}"):
        list(chunks(source, chunk_bytes))
    assert source.closed


def placed_in(source: Source) -> list[PlacedBatch]:
    """All batches of a segment."""
    return [each for chunk in chunks(source, 2**20) for each in chunk.batches]


@given(st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=8), st.integers(0, 900))
def test_chosen_chunks_have_the_chosen_batches_alone(sizes: list[tuple[int, bool]], chunk_bytes: int) -> None:
    batches = some_batches([size for size, _ in sizes])
    source = source_of(batches)
    chosen = [each for each, (_, wanted) in zip(placed_in(source), sizes, strict=True) if wanted]
    source.reads.clear()
    found: list[bytes] = []
    for chunk in chosen_chunks(source, PlacedBatches.of(chosen), chunk_bytes):
        chosen_bytes = sum(each.header.size for each in chunk.batches)
        assert len(chunk.content) == chunk.size
        assert chosen_bytes <= chunk.size <= chosen_bytes * 4 / 3
        assert chosen_bytes <= max(chunk_bytes, HEADER_BYTES) or len(chunk.batches) == 1
        for header, position in chunk.batches:
            found.append(chunk.content[position : position + header.size])
            assert parse_header(found[-1]) == header
    assert found == [batch for batch, (_, wanted) in zip(batches, sizes, strict=True) if wanted]
    assert sum(source.reads) <= sum(map(len, found)) * 4 / 3
    assert source.closed


def test_chosen_chunks_read_batches_that_follow_each_other_at_once() -> None:
    batches = some_batches([10] * 8)
    source = source_of(batches)
    placed = placed_in(source)
    source.reads.clear()
    (chunk,) = chosen_chunks(source, PlacedBatches.of([*placed[:3], placed[6], placed[7]]), 2**20)
    assert source.reads == [3 * len(batches[0]), 2 * len(batches[0])]
    assert chunk.content == b"".join(batches[:3] + batches[6:])


def test_chosen_chunks_read_batches_that_lie_close_together_with_what_is_between_them() -> None:
    batches = some_batches([10] * 8)
    source = source_of(batches)
    placed = placed_in(source)
    source.reads.clear()
    (chunk,) = chosen_chunks(source, PlacedBatches.of([*placed[1:4], placed[5], *placed[6:]]), 2**20)
    assert source.reads == [7 * len(batches[0])]
    assert [bytes(chunk.content_of(index)) for index in range(6)] == batches[1:4] + batches[5:]


def test_chosen_chunks_have_no_more_records_than_are_worked_on_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "RECORDS_AT_ONCE", 4)
    source = source_of([make_batch([b""] * count, 10 * count) for count in (3, 1, 2, 9, 2, 2, 1)])
    placed = PlacedBatches.of(placed_in(source))
    found = [chunk.batches.record_count.tolist() for chunk in chosen_chunks(source, placed, 2**20)]
    assert found == [[3, 1], [2], [9], [2, 2], [1]]


def test_chosen_chunks_refuse_a_segment_that_was_cut_off_meanwhile() -> None:
    source = source_of(some_batches([10] * 3))
    placed = placed_in(source)
    source.content = source.content[:-1]
    cut_off = f"the segment at 0 was cut off meanwhile, at byte {len(source.content)}"
    with pytest.raises(CorruptBatch, match=cut_off):
        list(chosen_chunks(source, PlacedBatches.of([placed[0], placed[2]]), 2**20))
    assert source.closed


def test_chosen_chunks_begin_to_read_the_next_one_before_this_one_is_worked_on() -> None:
    batches = some_batches([10] * 5)
    size = len(batches[0])
    source = source_of(batches)
    placed = placed_in(source)
    source.needed.clear()
    begun: list[int] = []
    for _ in chosen_chunks(source, PlacedBatches.of([placed[0], placed[2], placed[3], placed[4]]), size * 2):
        begun.append(len(source.needed))
    assert source.needed == [(0, size), (2 * size, size), (3 * size, 2 * size)]
    assert begun == [3, 3]


def test_chunks_begin_to_read_the_next_one_before_this_one_is_worked_on() -> None:
    batches = some_batches([10] * 5)
    size = len(batches[0])
    source = source_of(batches)
    iterator = chunks(source, size * 2)
    next(iterator)
    assert source.needed == [(2 * size, 2 * size)]
    assert source.reads == [2 * size]


@pytest.mark.parametrize("chunk_bytes", [1, 100, 150, 10_000])
@pytest.mark.parametrize("missing", [1, 60, 199, 200, 240, 300])
def test_chunks_refuse_a_segment_that_was_cut_off_meanwhile(missing: int, chunk_bytes: int) -> None:
    source = source_of(some_batches([10, 200]))
    source.content = source.content[:-missing]
    cut_off = f"the segment at 0 was cut off meanwhile, at byte {len(source.content)}"
    with pytest.raises(CorruptBatch, match=cut_off):
        list(chunks(source, chunk_bytes))
    assert source.closed


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48])
def test_chunks_refuse_a_length_that_no_batch_has(length: int) -> None:
    batch = make_batch()
    batch[8:12] = length.to_bytes(4, signed=True)
    for chunk_bytes in (1, 10_000):
        with pytest.raises(CorruptBatch, match="the batch at offset 0 cannot have"):
            list(chunks(source_of([batch]), chunk_bytes))


def test_chunks_refuse_a_length_beyond_the_segment_without_reading_so_much() -> None:
    batch = make_batch()
    batch[8:12] = (2**31 - 1).to_bytes(4)
    source = source_of([batch], bytes(100))
    with pytest.raises(CorruptBatch, match="ends in a batch"):
        list(chunks(source, 100))
    assert max(source.reads) == 100


@pytest.mark.parametrize(("magic", "message"), [(3, "no message format 3"), (255, "no message format 255")])
def test_chunks_refuse_other_message_formats(magic: int, message: str) -> None:
    newer = make_batch()
    newer[MAGIC_AT] = magic
    source = source_of([make_batch(), newer])
    with pytest.raises(CorruptBatch, match=message):
        list(chunks(source, 1000))
    assert source.closed


# --- groups


def grouped(
    sources: Sequence[Source], until: int, segment_bytes: int = 2**40, index_bytes: int = 2**40
) -> list[list[int]]:
    """The base offsets of the segments in each group."""
    found = groups(sources, until, segment_bytes, index_bytes)
    return [[source.base_offset for source in group] for group in found]


@pytest.mark.parametrize(
    ("segment_bytes", "expected"),
    [
        (600, [[0, 10, 20]]),
        (599, [[0, 10], [20]]),
        (300, [[0, 10], [20]]),
        (299, [[0], [10], [20]]),
        (1, [[0], [10], [20]]),
    ],
)
def test_groups_have_at_most_segment_bytes(segment_bytes: int, expected: list[list[int]]) -> None:
    sources = [Source(0, 100), Source(10, 200), Source(20, 300)]
    assert grouped(sources, 30, segment_bytes) == expected


@pytest.mark.parametrize(
    ("index_bytes", "expected"),
    [
        (20, [[0, 10, 20, 30]]),
        (19, [[0, 10, 20], [30]]),
        (11, [[0, 10], [20, 30]]),
        (10, [[0], [10, 20], [30]]),
    ],
)
def test_groups_have_at_most_index_bytes_in_each_index(index_bytes: int, expected: list[list[int]]) -> None:
    sources = [Source(0, 1, 8, 1), Source(10, 1, 3, 8), Source(20, 1, 1, 2), Source(30, 1, 8, 1)]
    assert grouped(sources, 40, index_bytes=index_bytes) == expected
    swapped = [Source(each.base_offset, 1, each.time_index_bytes, each.index_bytes) for each in sources]
    assert grouped(swapped, 40, index_bytes=index_bytes) == expected


@pytest.mark.parametrize(
    ("until", "expected"),
    [(5 + MOST_SPAN, [[5, 10]]), (6 + MOST_SPAN, [[5, 10]]), (7 + MOST_SPAN, [[5], [10]])],
)
def test_groups_span_offsets_that_a_segment_can_have(until: int, expected: list[list[int]]) -> None:
    assert grouped([Source(5, 1), Source(10, 1)], until) == expected


def test_groups_take_the_end_of_a_segment_from_the_next_one() -> None:
    sources = [Source(0, 1), Source(10, 1), Source(MOST_SPAN + 2, 1)]
    assert grouped(sources, MOST_SPAN + 9) == [[0], [10, MOST_SPAN + 2]]
    sources[2].base_offset = MOST_SPAN + 1
    assert grouped(sources, MOST_SPAN + 9) == [[0, 10], [MOST_SPAN + 1]]


def test_groups_take_empty_segments_however_far_they_span() -> None:
    sources = [Source(0, 1), Source(10, 0), Source(2**40, 0), Source(2**41, 1)]
    assert grouped(sources, 2**42) == [[0, 10, 2**40], [2**41]]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(0, 5), st.integers(1, 2**30)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 30),
    st.integers(1, 12),
)
def test_groups_have_all_segments_and_no_two_could_be_one(
    rows: list[tuple[int, int, int, int]], segment_bytes: int, index_bytes: int
) -> None:
    sources: list[Source] = []
    offset = 3
    for size, index, time_index, span in rows:
        sources.append(Source(offset, size, index, time_index))
        offset += span
    found = groups(sources, offset, segment_bytes, index_bytes)
    assert [source for group in found for source in group] == sources
    after = [*(source.base_offset for source in sources[1:]), offset]
    ends = {source.base_offset: end for source, end in zip(sources, after, strict=True)}

    def fits(group: Sequence[SegmentSource]) -> bool:
        last = group[-1]
        return (
            sum(each.size_bytes for each in group) <= segment_bytes
            and sum(each.index_bytes for each in group) <= index_bytes
            and sum(each.time_index_bytes for each in group) <= index_bytes
            and (not last.size_bytes or ends[last.base_offset] - 1 - group[0].base_offset <= MOST_SPAN)
        )

    assert all(len(group) == 1 or fits(group) for group in found)
    for group, following in pairwise(found):
        assert not fits([*group, following[0]])
