"""Where the records of a few large batches begin: what is found at once is what is found one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.records.made_batches import framed, varint
from tidelog.kernel.errors import CorruptBatch
from tidelog.kernel.records import record_starts as module
from tidelog.kernel.records.columns import Column, Varints
from tidelog.kernel.records.record import Record, encode_record
from tidelog.kernel.records.record_starts import record_starts
from tidelog.kernel.records.sections import Piece, Stretch, pieces_of

SMALL_VALUE = 150
"""Bytes of a value, at most: large ones leave too few records to find at once."""
BETWEEN = b"\x80\x00\x0c\x00"
"""Lies between batches, and is none of theirs."""
ENOUGH = 4000
"""Records that are found at once, if they can be."""

Maker = Callable[[random.Random, int], bytes]


def encoded(offset: int, key: bytes | None, value: bytes | None, *headers: tuple[str, bytes]) -> bytes:
    """A record, at a time that depends on its offset."""
    out = bytearray()
    encode_record(out, Record(offset, offset // 10, key, value, headers), 0, 0)
    return bytes(out)


def text(rng: random.Random, offset: int) -> bytes:
    """As most records are: no zero byte in key and value."""
    value = bytes(rng.choices(b'abc",:{}0123456789', k=rng.randrange(SMALL_VALUE)))
    return encoded(offset, b"%d" % rng.randrange(10**5), value)


def with_headers(rng: random.Random, offset: int) -> bytes:
    """It does not end with a zero byte."""
    return encoded(offset, b"k", rng.randbytes(rng.randrange(20)), ("trace", rng.randbytes(16)), ("h", b"1"))


def zeros(rng: random.Random, offset: int) -> bytes:
    """Almost every byte is zero."""
    return encoded(offset, rng.randrange(10**5).to_bytes(8), bytes(rng.randrange(SMALL_VALUE)))


def noise(rng: random.Random, offset: int) -> bytes:
    """Any bytes."""
    return encoded(offset, None, rng.randbytes(rng.randrange(SMALL_VALUE)))


def tombstone(rng: random.Random, offset: int) -> bytes:
    """As short as they are."""
    return encoded(offset, None, None)


def nested(rng: random.Random, offset: int) -> bytes:
    """Its value looks like records."""
    return encoded(offset, None, b"".join(text(rng, each) for each in range(rng.randrange(15))))


def marked(rng: random.Random, offset: int) -> bytes:
    """It has attributes, which no reader minds."""
    return framed(b"\x01\x00" + varint(offset) + b"\x01" + varint(3) + b"abc" + b"\x00")


def large(rng: random.Random, offset: int) -> bytes:
    """Now and then its length has three bytes."""
    return encoded(offset, None, b"v" * rng.choice([5, 50, 100, 8180, 8190, 9000]))


def rarely_large(rng: random.Random, offset: int) -> bytes:
    """Of some hundred records one is not followed in its section."""
    return encoded(offset, None, bytes(9000)) if rng.randrange(400) == 0 else text(rng, offset)


def at_times_marked(rng: random.Random, offset: int) -> bytes:
    """In some places no record looks like one."""
    return marked(rng, offset) if offset % 1000 < 100 else text(rng, offset)


def mixed(rng: random.Random, offset: int) -> bytes:
    """Any of the others."""
    return rng.choice([text, with_headers, zeros, noise, tombstone, nested, marked])(rng, offset)


ORDINARY = (text, with_headers, zeros, noise)
KINDS = (*ORDINARY, tombstone, nested, marked, large, rarely_large, at_times_marked, mixed)


@attrs.frozen
class Made:
    """Batches' records in `data`, and where each of them begins."""

    data: bytes
    starts: Column
    ends: Column
    counts: Column
    meant: list[int]

    def found(self) -> list[int]:
        """What is found of all batches at once."""
        found = record_starts(self.data, Varints(self.data), self.starts, self.ends, self.counts)
        return [int(each) for each in found]

    def found_one_by_one(self) -> list[int]:
        """What is found of a batch at a time: too few records for sections."""
        varints = Varints(self.data)
        return [
            start
            for index in range(len(self.counts))
            for start in record_starts(self.data, varints, *self._columns(slice(index, index + 1))).tolist()
        ]

    def pieces(self) -> list[list[Piece]]:
        """What is found of all batches section by section."""
        return pieces_of(self.data, Varints(self.data), self.stretches())

    def stretches(self) -> list[Stretch]:
        """The same batches for `pieces_of`."""
        rows = zip(self.starts.tolist(), self.ends.tolist(), self.counts.tolist(), strict=True)
        return [Stretch(*each) for each in rows]

    def _columns(self, chosen: slice) -> tuple[Column, Column, Column]:
        return self.starts[chosen], self.ends[chosen], self.counts[chosen]


def made(seed: int, *batches: tuple[Maker, int]) -> Made:
    """Batches of so many records of a kind."""
    rng = random.Random(seed)
    data = bytearray(BETWEEN)
    bounds: list[tuple[int, int, int]] = []
    meant: list[int] = []
    for maker, records in batches:
        begin = len(data)
        for offset in range(records):
            meant.append(len(data))
            data += maker(rng, offset)
        bounds.append((begin, len(data), records))
        data += BETWEEN
    starts, ends, counts = np.array(bounds, np.int64).reshape(-1, 3).T
    return Made(bytes(data), starts, ends, counts, meant)


def outcome(find: Callable[[], list[int]]) -> list[int] | None:
    """What was found; None if the records are refused."""
    try:
        return find()
    except (CorruptBatch, IndexError):
        return None


sizes = st.sampled_from([0, 1, 63, 64, 95, 96, 1000, 2900])
some_batches = st.lists(st.tuples(st.sampled_from(KINDS), sizes), min_size=1, max_size=6)


@given(st.integers(0, 2**32), some_batches, st.sampled_from(KINDS))
@settings(max_examples=40)
def test_records_of_every_kind_are_found(seed: int, some: list[tuple[Maker, int]], kind: Maker) -> None:
    batches = made(seed, *some, (kind, ENOUGH))
    assert batches.found() == batches.meant


@given(st.integers(0, 2**32), some_batches, st.sampled_from(KINDS))
@settings(max_examples=40)
def test_pieces_are_records_if_they_begin_with_one(
    seed: int, some: list[tuple[Maker, int]], kind: Maker
) -> None:
    batches = made(seed, *[each for each in some if each[1]], (kind, ENOUGH))
    first = 0
    for stretch, pieces in zip(batches.stretches(), batches.pieces(), strict=True):
        meant = [*batches.meant[first : first + stretch.records], stretch.end]
        first += stretch.records
        for each in pieces:
            starts = [*each.starts.tolist(), each.after]
            if starts[0] in meant:
                index = meant.index(starts[0])
                assert starts == meant[index : index + len(starts)]


@pytest.mark.parametrize("kind", [*ORDINARY, at_times_marked])
@pytest.mark.parametrize("records", [(ENOUGH,), (950,) * 9])
def test_ordinary_records_are_found_at_once(kind: Maker, records: tuple[int, ...]) -> None:
    batches = made(1, *[(kind, each) for each in records])
    missing = set(batches.meant)
    for pieces in batches.pieces():
        missing.difference_update(*[each.starts.tolist() for each in pieces])
    assert len(missing) < len(batches.meant) / 50


def test_records_between_pieces_alone_are_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    walk, walked = module.walk, list[int]()

    def counted(data: bytes, position: int, count: int) -> tuple[list[int], int]:
        walked.append(count)
        return walk(data, position, count)

    monkeypatch.setattr(module, "walk", counted)
    batches = made(1, (rarely_large, ENOUGH))
    assert len(batches.pieces()[0]) > 1
    assert batches.found() == batches.meant
    assert 0 < sum(walked) < ENOUGH / 2


def test_records_of_one_size_need_no_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    given_stretches: list[Stretch] = []

    def noted(_data: bytes, _varints: Varints, stretches: list[Stretch]) -> list[list[Piece]]:
        given_stretches.extend(stretches)
        return [[] for _ in stretches]

    monkeypatch.setattr(module, "pieces_of", noted)
    batches = made(1, (large, 1), (lambda _rng, _offset: encoded(0, None, b"v" * 100), ENOUGH))
    assert batches.found() == batches.meant
    assert given_stretches == []


def test_no_section_begins_in_the_next_batch() -> None:
    """All of the places where the last sections could begin are in one record."""

    def last_is_large(rng: random.Random, offset: int) -> bytes:
        return encoded(offset, None, b"v" * 8000) if offset == ENOUGH - 1 else tombstone(rng, offset)

    batches = made(1, (last_is_large, ENOUGH), (text, ENOUGH))
    for stretch, pieces in zip(batches.stretches(), batches.pieces(), strict=True):
        assert pieces[-1].after == stretch.end
        assert sum(len(each.starts) for each in pieces) == ENOUGH


def test_few_records_are_found_one_by_one() -> None:
    batches = made(1, (text, 64), (text, 1000))
    assert batches.pieces() == [[], []]
    assert batches.found() == batches.meant


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.data())
@settings(max_examples=40)
def test_damaged_records_are_found_or_refused_as_one_batch_at_a_time(
    seed: int, kind: Maker, data: st.DataObject
) -> None:
    batches = made(seed, *[(kind, 950)] * 5)
    damaged = bytearray(batches.data)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.sampled_from(batches.meant)) + data.draw(st.integers(0, 3))
        damaged[at] = data.draw(st.sampled_from([0, 1, 2, 0x0C, 0x7F, 0x80, 0xFF]))
    again = attrs.evolve(batches, data=bytes(damaged))
    assert outcome(again.found) == outcome(again.found_one_by_one)


@pytest.mark.parametrize("kind", [text, zeros, nested, tombstone])
@pytest.mark.parametrize("change", [-1, 1, -500])
def test_a_wrong_count_is_refused(kind: Maker, change: int) -> None:
    batches = made(3, *[(kind, 950)] * 5)
    for index in range(5):
        counts = batches.counts.copy()
        counts[index] += change
        with pytest.raises(CorruptBatch, match=f"{950 + change} records do not have the"):
            attrs.evolve(batches, counts=counts).found()


def test_a_record_that_is_longer_than_its_batch_is_refused() -> None:
    batches = made(3, (text, ENOUGH))
    at = batches.meant[0]
    data = batches.data[:at] + varint(len(batches.data) * 2) + batches.data[at + 3 :]
    with pytest.raises(CorruptBatch):
        attrs.evolve(batches, data=data).found()


def test_a_batch_that_ends_too_early_is_refused() -> None:
    batches = made(3, *[(text, 950)] * 5)
    for index in range(5):
        ends = batches.ends.copy()
        ends[index] -= 1
        with pytest.raises(CorruptBatch, match="950 records do not have the"):
            attrs.evolve(batches, ends=ends).found()


def test_data_that_end_inside_a_record_are_found_or_refused_as_one_batch_at_a_time() -> None:
    batches = made(3, *[(text, 950)] * 5)
    for missing in range(len(BETWEEN), len(BETWEEN) + 400, 7):
        cut = attrs.evolve(batches, data=batches.data[:-missing])
        assert outcome(cut.found) == outcome(cut.found_one_by_one)
