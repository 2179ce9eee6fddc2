"""The map from keys to offsets does what a dict does, as long as there is room."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import md5

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.kernel.records.columns import Column
from tidelog.plugins.cleaner.compaction import offset_map
from tidelog.plugins.cleaner.compaction.offset_map import NOT_FOUND, SLOT_BYTES, OffsetMap

FIRST_WORDS = [b"\x00\x00\x00", b"\xff\xff\xff", b"\x80\x00\x00", b"\x7f\xff\xff"]


def crafted(number: int) -> bytes:
    """Hashes that are looked for in the same slots: bytes that repeat, and the lowest number of all."""
    return bytes([number + 1]) * 16


# Of few bytes, so that numbers in them are small, negative, or the smallest one there is.
low_hashes = st.binary(min_size=16, max_size=16) | st.lists(
    st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF]), min_size=16, max_size=16
).map(bytes)
twins = st.tuples(st.sampled_from(FIRST_WORDS), st.integers(1, 255)).map(
    lambda pair: pair[0] * 4 + pair[0][:3] + bytes([pair[1]])
)
hashes = st.integers(0, 5).map(crafted) | low_hashes.filter(any) | twins


def rows(found: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Hashes as the map takes them."""
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, 16)


def fitting(model: dict[bytes, int], batch: Sequence[bytes], most: int) -> int:
    """How many of the first hashes a dict of at most so many entries takes."""
    known = set(model)
    for count, key in enumerate(batch):
        if key not in known and len(known) == most:
            return count
        known.add(key)
    return len(batch)


@given(
    slots=st.integers(1, 12),
    load_factor=st.sampled_from([0.01, 0.5, 0.9, 1.0]),
    puts=st.lists(st.lists(hashes, max_size=12), max_size=6),
    strangers=st.lists(hashes, max_size=4),
)
# From -3 on the numbers come back to slots where they have been: 3, 2, 1, 0, 1, 2 ...
@example(
    slots=9,
    load_factor=1.0,
    puts=[[bytes([0, 0, 0, slot]) * 4 for slot in (1, 2, 3, 4, 5, 6, 7, 9)], [b"\xff" * 15 + b"\xfd"]],
    strangers=[],
)
def test_offset_map_is_a_dict_with_limited_room(
    slots: int, load_factor: float, puts: list[list[bytes]], strangers: list[bytes]
) -> None:
    found = OffsetMap(slots * SLOT_BYTES + 23, load_factor)
    most = max(int(slots * load_factor), 1)
    model: dict[bytes, int] = {}
    offset = 0
    for batch in puts:
        offsets = np.arange(offset, offset + len(batch)) * 3
        taken = found.put(rows(batch), offsets)
        assert taken == fitting(model, batch, most)
        model.update(zip(batch[:taken], offsets[:taken].tolist(), strict=True))
        offset += len(batch)
        assert found.size == len(model) <= most
        assert found.filled == len(model) / slots
        asked = [each for put in puts for each in put] + strangers
        assert found.get(rows(asked)).tolist() == [model.get(each, NOT_FOUND) for each in asked]


def test_put_keeps_the_newest_offset_of_a_key() -> None:
    found = OffsetMap(10 * SLOT_BYTES, 1)
    one, other = crafted(1), crafted(2)
    assert found.put(rows([one, other, one, one]), np.array([5, 6, 7, 2**62])) == 4
    assert found.get(rows([one, other])).tolist() == [2**62, 6]
    assert found.put(rows([other]), np.array([2**62 + 1])) == 1
    assert found.get(rows([one, other])).tolist() == [2**62, 2**62 + 1]
    assert found.size == 2


def test_put_tells_hashes_apart_that_are_looked_for_in_the_same_slots() -> None:
    """All have the same first 15 bytes, so they differ in the last number alone, or in none modulo 4."""
    alike = [bytes([*[0xAB] * 15, last]) for last in range(0, 256, 8)]
    found = OffsetMap(64 * SLOT_BYTES, 0.5)
    assert found.put(rows(alike), np.arange(32)) == 32
    assert found.get(rows(alike)).tolist() == list(range(32))
    assert found.get(rows([bytes([*[0xAB] * 15, 1])])).tolist() == [NOT_FOUND]


def test_put_tells_hashes_apart_of_which_one_half_is_the_same() -> None:
    halves = [bytes(8), b"\x01" * 8, b"\x02" * 8]
    mixed = [front + back for front in halves for back in halves if any(front + back)]
    found = OffsetMap(8 * SLOT_BYTES, 1)
    assert found.put(rows(mixed), np.arange(8)) == 8
    assert found.get(rows(mixed)).tolist() == list(range(8))


def test_put_into_a_full_map_takes_keys_that_are_there() -> None:
    found = OffsetMap(3 * SLOT_BYTES, 1)
    there = [crafted(index) for index in range(3)]
    assert found.put(rows(there), np.arange(3)) == 3
    assert found.put(rows(there), np.arange(3, 6)) == 3
    assert found.put(rows([there[2], there[0], crafted(9), there[1]]), np.arange(6, 10)) == 2
    assert found.get(rows(there)).tolist() == [7, 4, 6]
    assert found.put(rows([crafted(9)]), np.array([10])) == 0
    assert found.put(rows([]), np.array([], np.int64)) == 0
    assert found.filled == 1


@pytest.mark.parametrize(
    ("memory_bytes", "load_factor", "room"),
    [(2400, 0.9, 90), (2423, 0.5, 50), (2400, 1, 100), (2400, 0.001, 1), (23, 0.9, 1), (0, 1, 1)],
)
def test_offset_map_takes_24_bytes_for_a_slot(memory_bytes: int, load_factor: float, room: int) -> None:
    found = OffsetMap(memory_bytes, load_factor)
    assert found.slots == max(memory_bytes // 24, 1)
    arrays = [each for each in vars(found).values() if isinstance(each, np.ndarray)]
    assert sum(array.nbytes for array in arrays) == 24 * found.slots
    keys = rows([md5(bytes([index]), usedforsecurity=False).digest() for index in range(200)])
    assert found.put(keys, np.arange(200)) == room
    assert found.get(keys).tolist() == [*range(room), *[NOT_FOUND] * (200 - room)]


@given(st.integers(0, 50), st.integers(0, 60))
def test_offset_map_takes_no_more_memory_than_so_many_keys_need(most_keys: int, keys: int) -> None:
    found = OffsetMap(100 * SLOT_BYTES, 0.9, most_keys)
    assert found.slots == max(2 * most_keys, 1)
    hashes = rows([md5(bytes([index]), usedforsecurity=False).digest() for index in range(keys)])
    taken = found.put(hashes, np.arange(keys))
    assert taken >= min(keys, most_keys)
    assert found.get(hashes).tolist() == [*range(taken), *[NOT_FOUND] * (keys - taken)]
    assert found.filled == taken / 100
    assert sorted(np.concatenate([*found.offsets()]).tolist()) == [*range(taken)]


def test_offset_map_gives_all_offsets_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "_SLOTS_AT_ONCE", 7)
    found = OffsetMap(100 * SLOT_BYTES, 1)
    found.put(
        rows([md5(bytes([index]), usedforsecurity=False).digest() for index in range(60)]), np.arange(60)
    )
    some = list(found.offsets())
    assert len(some) == 15
    assert max(map(len, some)) <= 7
    assert sorted(np.concatenate(some).tolist()) == [*range(60)]


def test_get_of_an_unknown_key_ends_at_an_empty_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when all slots were looked at: there are millions."""
    steps: list[None] = []
    slots = offset_map._Search.slots  # pyright: ignore[reportPrivateUsage]

    def counted(search: offset_map._Search) -> Column:  # pyright: ignore[reportPrivateUsage]
        steps.append(None)
        return slots(search)

    monkeypatch.setattr(offset_map._Search, "slots", counted)  # pyright: ignore[reportPrivateUsage]
    found = OffsetMap(1000 * SLOT_BYTES, 1)
    keys = rows([md5(bytes([index]), usedforsecurity=False).digest() for index in range(2)])
    found.put(keys[:1], np.arange(1))
    steps.clear()
    assert found.get(keys).tolist() == [0, NOT_FOUND]
    assert len(steps) <= 2


def test_offset_map_of_many_keys_finds_all_of_them() -> None:
    keys = rows([md5(index.to_bytes(4), usedforsecurity=False).digest() for index in range(9000)])
    found = OffsetMap(10_000 * SLOT_BYTES, 0.9)
    for start in range(0, 9000, 1000):
        assert found.put(keys[start : start + 1000], np.arange(start, start + 1000)) == 1000
    assert found.get(keys).tolist() == list(range(9000))
