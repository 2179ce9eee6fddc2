"""What a reading of keyed topics may find, and what it must not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.soak.history import History, Promise, Reading
from tests.soak.writers.keys import DELETED_AFTER, RARE_EVERY, RARE_SPAN, keyed_record

WRITER = "transactional"
NUMBERS = range(1000)


def numbers_of_one_key() -> list[int]:
    """Return the numbers of the key of the number 1, with a tombstone among them."""
    key = keyed_record(WRITER, 1).key
    return [number for number in NUMBERS if keyed_record(WRITER, number).key == key]


VALUES = [number for number in numbers_of_one_key() if keyed_record(WRITER, number).value is not None]
TOMBSTONES = [number for number in numbers_of_one_key() if keyed_record(WRITER, number).value is None]


def history(committed: list[int] = [], aborted: list[int] = [], begun: list[int] = []) -> History:  # noqa: B006
    """Return a history of single numbers."""
    found = History(WRITER)
    for number in sorted([*committed, *aborted, *begun]):
        found.take(f"begun {number} {number + 1}\n")
    for what, numbers in (("committed", committed), ("aborted", aborted)):
        for number in numbers:
            found.take(f"{what} {number} {number + 1}\n")
    return found


def read(sent: History, numbers: list[int], *, quiet: bool = True, trimmed: bool = False) -> Reading:
    """Read these numbers from one partition, and check them."""
    reading = Reading("t", {WRITER: sent})
    for offset, number in enumerate(numbers):
        record = keyed_record(WRITER, number)
        reading.take(0, offset, record.key, record.value, record.header)
    reading.check({WRITER: sent.last_acknowledged()}, 1, quiet=quiet, trimmed=trimmed)
    return reading


def test_keys_are_overwritten_deleted_and_left_alone() -> None:
    assert len(VALUES) > 3
    assert TOMBSTONES
    assert keyed_record(WRITER, 0).key == keyed_record(WRITER, RARE_EVERY // 2 + DELETED_AFTER).key
    keys = [keyed_record(WRITER, number).key for number in NUMBERS]
    assert keys.count(keyed_record(WRITER, RARE_EVERY).key) == 1
    assert keyed_record(WRITER, RARE_EVERY).key == keyed_record(WRITER, RARE_EVERY + RARE_SPAN).key


def test_take_counts_groups_and_where_numbers_continue() -> None:
    sent = History(WRITER)
    for line in ("begun 0 20\n", "committed 0 20\n", "begun 20 40\n", "aborted 20 40\n", "begun 40 60\n"):
        sent.take(line)
    assert (sent.next_number, sent.groups, sent.acknowledged, sent.aborted) == (60, 1, 20, 20)


def test_check_takes_the_last_acknowledged_value_or_a_later_one() -> None:
    first, second, third = VALUES[:3]
    read(history([first, second]), [second])
    read(history([first, second], begun=[third]), [second, third])


def test_promise_is_due_when_the_writer_has_begun_two_more_groups() -> None:
    histories = {WRITER: history(VALUES[:1])}
    promise = Promise.of(histories)
    for number, is_due in zip(VALUES[1:4], [False, True, True], strict=True):
        histories[WRITER].take(f"begun {number} {number + 1}\n")
        assert promise.is_due(histories) is is_due
    assert promise.last == {WRITER: {keyed_record(WRITER, 1).key: VALUES[0]}}


@pytest.mark.parametrize("found", [[], [VALUES[0]]])
def test_check_finds_a_lost_value(found: list[int]) -> None:
    with pytest.raises(AssertionError, match="was acknowledged"):
        read(history(VALUES[:2]), found)


def test_check_finds_a_deleted_value_that_is_back() -> None:
    deleted = next(number for number in TOMBSTONES if number > VALUES[0])
    sent = history([VALUES[0], deleted])
    read(sent, [])
    read(sent, [VALUES[0], deleted])
    with pytest.raises(AssertionError, match="was acknowledged"):
        read(sent, [VALUES[0]])
    # A slow reader may have read the value and miss the tombstone.
    read(sent, [VALUES[0]], quiet=False)


def test_check_takes_a_value_whose_tombstone_was_aborted_for_lost() -> None:
    value, deleted = next(
        (one, other) for one, other in pairwise(numbers_of_one_key()) if one in VALUES and other in TOMBSTONES
    )
    read(history([value], begun=[deleted]), [])
    with pytest.raises(AssertionError, match="was acknowledged"):
        read(history([value], aborted=[deleted]), [])


def test_check_of_a_trimmed_topic_misses_only_what_is_below_its_records() -> None:
    rare, later, last = RARE_EVERY, *[number for number in VALUES if number > RARE_EVERY][:2]
    sent = history([rare, later, last])
    read(sent, [last], trimmed=True)
    with pytest.raises(AssertionError, match="was acknowledged"):
        read(sent, [last])
    with pytest.raises(AssertionError, match="was acknowledged"):
        read(sent, [rare, later], trimmed=True)


def test_take_finds_an_aborted_value() -> None:
    with pytest.raises(AssertionError, match="aborted"):
        read(history([VALUES[0]], aborted=[VALUES[1]]), VALUES[:2])


def test_check_aborted_finds_a_value_that_was_aborted_after_it_was_read() -> None:
    sent = history([VALUES[0]], begun=[VALUES[1]])
    reading = read(sent, VALUES[:2])
    reading.check_aborted()
    sent.take(f"aborted {VALUES[1]} {VALUES[1] + 1}\n")
    with pytest.raises(AssertionError, match="aborted"):
        reading.check_aborted()


@pytest.mark.parametrize(
    ("offset", "number", "value", "message"),
    [
        (7, VALUES[1], b"", "follows offset 7"),
        (6, VALUES[1], b"", "follows offset 7"),
        (8, VALUES[0], b"", "follows"),
        (8, VALUES[1], b"other bytes", "not what was sent"),
    ],
)
def test_take_finds_records_out_of_order_and_other_bytes(
    offset: int, number: int, value: bytes, message: str
) -> None:
    reading = Reading("t", {WRITER: history(VALUES[:2])})
    first, record = keyed_record(WRITER, VALUES[0]), keyed_record(WRITER, number)
    reading.take(0, 7, first.key, first.value, first.header)
    with pytest.raises(AssertionError, match=message):
        reading.take(0, offset, record.key, value or record.value, record.header)
