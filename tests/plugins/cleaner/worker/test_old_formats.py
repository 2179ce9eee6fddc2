"""Rewriting logs with messages of the formats 0 and 1: what stays keeps its format, codec and offset."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.records.message_sets import GZIP, LZ4, SNAPPY, plain_set, wrapper
from tests.tables import for_each
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records.batch import (
    LOG_OVERHEAD_BYTES,
    MAGIC_V2,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    parse_message,
    verify_crc,
)
from tidelog.kernel.records.compression import unpack
from tidelog.kernel.records.message_set import (
    MAGIC_V1,
    Message,
    encode_message,
    iter_messages,
    verify_message_crc,
    wrapped_value,
)
from tidelog.kernel.records.placed import PlacedBatches
from tidelog.kernel.records.record import Record
from tidelog.kernel.testing import make_batch
from tidelog.plugins.cleaner.worker.segments import Chunk, SurveyedBatches

from .histories import Batch, History, Row, records_in
from .test_rewriter import ChangedSource, damaged, rolled

TIME = 1_500_000_000_000


def stored(
    rows: Sequence[Row], first: int, magic: int, codec: int = 0, *, append_time: bool = False, step: int = 1
) -> tuple[bytes, list[Record]]:
    """A message that holds these from an offset on, every `step` offsets; and the records of that."""
    offsets = range(first, first + step * len(rows), step)
    times = [TIME + 7 * (offset % 5) for offset in offsets]
    time_type = TIMESTAMP_TYPE_BIT if append_time and magic else 0
    newest = TIME + 99 if time_type else max(times)
    inner = bytearray()
    for offset, time, row in zip(offsets, times, rows, strict=True):
        counted = offset - first if magic and codec else offset
        encode_message(inner, Message(counted, time, *row), magic, attributes=time_type)
    message = bytes(inner)
    if codec:
        message = wrapper(message, magic, codec, offsets[-1], newest, attributes=time_type)
    known = [NO_TIMESTAMP if not magic else newest if codec and time_type else time for time in times]
    return message, [Record(*each) for each in zip(offsets, known, *zip(*rows, strict=True), strict=True)]


def write(
    history: History,
    rows: Sequence[Row],
    magic: int,
    codec: int = 0,
    *,
    append_time: bool = False,
    step: int = 1,
) -> None:
    """Append messages: one for each row, or one for all of them."""
    for some in [rows] if codec else [[row] for row in rows]:
        end = history.store.log_end_offset
        history.write_message(*stored(some, end, magic, codec, append_time=append_time, step=step))


def all_records(batches: Sequence[Batch]) -> list[Record]:
    """All records that are there."""
    return [record for header, batch in batches for record in records_in(batch, header)]


# --- for any log

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e", b""]) | st.none()
values = st.none() | st.sampled_from([b"", b"1", b"x" * 40])


@attrs.frozen
class Write:
    """A message of format 0 or 1, or a batch."""

    rows: list[Row]
    magic: int
    codec: int
    append_time: bool
    step: int


writes = st.builds(
    Write,
    st.lists(st.tuples(keys, values), min_size=1, max_size=5),
    st.sampled_from([0, 0, 1, 1, 2]),
    st.sampled_from([0, GZIP, SNAPPY, LZ4]),
    st.booleans(),
    st.integers(1, 3),
)


def written(segments: Sequence[Sequence[Write]]) -> History:
    """A log with these segments, and one for the rest."""
    history = History()
    for segment in segments:
        for each in segment:
            if each.magic == MAGIC_V2:
                history.write(each.rows, codec=each.codec, append_time=each.append_time)
            else:
                write(
                    history, each.rows, each.magic, each.codec, append_time=each.append_time, step=each.step
                )
        history.store.roll()
    return history


def check_message(header: BatchHeader, message: bytes, was: BatchHeader) -> None:
    """A message that stays, and the one that it was."""
    assert verify_message_crc(message, header)
    assert (header.magic, header.attributes) == (was.magic, was.attributes)
    left = list(iter_messages(message, header))
    assert left[-1].offset == header.base_offset
    assert header.max_timestamp == max(each.timestamp for each in left)
    if header.codec:
        packed = wrapped_value(memoryview(message), header.magic)
        content = b"".join(unpack(header.codec, packed, 2**20, magic=header.magic))
        position = 0
        for each in left:
            inner = parse_message(content, position)
            assert verify_message_crc(content[position : position + inner.size], inner)
            assert (inner.magic, inner.attributes) == (header.magic, header.attributes & TIMESTAMP_TYPE_BIT)
            counts_from = left[0].offset if header.magic == MAGIC_V1 else 0
            assert inner.base_offset == each.offset - counts_from
            position += inner.size


@given(
    st.lists(st.lists(writes, min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(1, 1000),
    st.sampled_from([1, 61, 100, 300, 2**20]),
    st.sampled_from([1, 200, 2**30]),
)
def test_the_newest_of_each_key_stays_in_its_format(
    segments: list[list[Write]], room: int, chunk_bytes: int, segment_bytes: int
) -> None:
    history = written(segments)
    before = history.batches()
    there = all_records(before)
    assert there == history.committed
    job = history.job(room=room, chunk_bytes=chunk_bytes, segment_bytes=segment_bytes)
    done = history.rewrite(job)
    after = history.batches()
    copied_until = min(
        (each.base_offset for each in job.sources if each.base_offset >= done.until), default=2**62
    )
    newest = {each.key: each.offset for each in there if each.offset < done.until}
    stay = [
        each
        for each in there
        if each.offset >= done.until or (each.key is not None and newest[each.key] == each.offset)
    ]
    assert all_records(after) == stay
    assert done.records_read == sum(each.offset < copied_until for each in there)
    assert done.records_kept == sum(each.offset < copied_until for each in stay)
    assert history.store.log_end_offset == job.until
    assert history.batches()[-1][0].next_offset == job.until
    kept = {each.offset for each in stay}
    for header, batch in after:
        if header.magic == MAGIC_V2:
            assert verify_crc(batch, header)
            continue
        (was, whole) = next(each for each in before if each[0].last_offset >= header.base_offset)
        check_message(header, batch, was)
        if {each.offset for each in records_in(whole, was)} <= kept:
            assert batch == whole


# --- one thing after the other


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_of_which_the_last_goes_has_the_offset_and_time_of_what_stays(
    magic: int,
) -> None:
    history = History()
    write(history, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], magic, GZIP)
    write(history, [(b"c", b"2"), (b"a", b"2")], magic)
    history.rewrite(rolled(history).job())
    (header, message) = history.batches()[0]
    time = TIME + 7 if magic else NO_TIMESTAMP
    assert (header.base_offset, header.max_timestamp) == (1, time)
    assert list(iter_messages(message, header)) == [Message(1, time, b"b", b"1")]
    assert history.left() == [(b"b", b"1"), (b"c", b"2"), (b"a", b"2")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, GZIP])
def test_tombstones_go_from_the_segments_that_are_named(magic: int, codec: int) -> None:
    history = History()
    write(history, [(b"a", None), (b"b", b"1")], magic, codec)
    history.store.roll()
    write(history, [(b"c", None), (b"d", b"1")], magic, codec)
    history.rewrite(rolled(history).job(segment_bytes=1))
    there: list[Row] = [(b"a", None), (b"b", b"1"), (b"c", None), (b"d", b"1")]
    assert history.left() == there
    # The time that has passed does not matter: only the broker knows how old the files are.
    history.now_ms += 10**12
    history.rewritten_until = 0
    history.rewrite(history.job(segment_bytes=1))
    assert history.left() == there
    history.rewritten_until = 0
    history.rewrite(attrs.evolve(history.job(segment_bytes=1), without_old_tombstones=[2]))
    assert history.left() == [there[0], there[1], there[3]]


@pytest.mark.parametrize("codec", [0, GZIP])
def test_the_last_message_leaves_an_empty_batch_if_it_goes(codec: int) -> None:
    history = History()
    write(history, [(b"a", b"1")], 1)
    write(history, [(None, b"1"), (None, b"2")], 1, codec)
    history.store.roll()
    history.rewrite()
    assert history.left() == [(b"a", b"1")]
    (_, (header, batch)) = history.batches()
    assert verify_crc(batch, header)
    assert (header.magic, header.base_offset, header.last_offset) == (MAGIC_V2, 2, 2)
    assert (header.record_count, header.codec, header.leader_epoch) == (0, 0, -1)


def test_the_last_message_leaves_an_empty_batch_if_the_last_in_it_goes() -> None:
    history = History()
    write(history, [(b"a", b"1"), (None, b"2")], 1, GZIP)
    history.store.roll()
    history.rewrite()
    assert history.left() == [(b"a", b"1")]
    assert [(header.magic, header.last_offset) for header, _ in history.batches()] == [(1, 0), (2, 1)]


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compressed_message_that_would_be_changed_needs_a_right_checksum(magic: int) -> None:
    history = History()
    write(history, [(b"a", b"1"), (b"b", b"1")], magic, GZIP)
    write(history, [(b"a", b"2")], magic)
    message = history.batches()[0][1]
    wrong = bytearray(message)
    wrong[LOG_OVERHEAD_BYTES] ^= 1
    before = history.batches()
    with pytest.raises(CorruptBatch, match="the message at offset 1 has a wrong checksum"):
        history.rewrite(damaged(rolled(history).job(), message, bytes(wrong)))
    assert history.batches()[: len(before)] == before


def holding(content: bytes) -> bytes:
    """A compressed message of format 0 with that content."""
    return wrapper(content, 0, GZIP, 4)


@for_each(
    ("message", "error"),
    [
        (holding(b""), "the message at offset 4: it is compressed and holds no other"),
        (holding(plain_set([(0, b"a", b"1")] * 2, 0)[:-1]), "the message at offset 4: a record of "),
        (
            holding(plain_set([(0, b"a", b"1")], 0, 3) * 2),
            "the message at offset 4: the offsets in it do not grow",
        ),
        (
            holding(plain_set([(0, b"a", b"1")], 0) + plain_set([(0, b"a", b"1")], 0, 2**31)),
            "the message at offset 4: the offsets in it do not grow",
        ),
        (holding(holding(b"")), "the message at offset 4: a compressed message holds one of another format"),
        (
            plain_set([(0, b"a", b"1")], 1, 4)[:-5] + bytes(5),
            "the message at offset 4: 1 bytes follow the value",
        ),
    ],
)
def test_malformed_messages_are_refused(message: bytes, error: str) -> None:
    history = History()
    history.skip(0)
    history.store.roll()
    job = attrs.evolve(history.job(), sources=[ChangedSource(0, message)])
    with pytest.raises(CorruptBatch, match=error):
        history.rewrite(job)


def test_outlines_of_messages_are_not_noted_whatever_their_size() -> None:
    content = bytes(make_batch([b"value"]))
    source, batches = ChangedSource(0, content), PlacedBatches.read(content, [0])
    surveyed = SurveyedBatches()
    surveyed.note(source, Chunk(content, batches, len(content), {0: content}))
    assert not surveyed.is_complete(source)
    surveyed.note(source, Chunk(content, batches, len(content)))
    assert surveyed.is_complete(source)
