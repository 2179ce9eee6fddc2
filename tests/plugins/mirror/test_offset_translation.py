"""Translated offsets never skip a record, and the runs that are kept stay few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.mirror.offset_translation import CopiedRun, OffsetTranslation


def copied(gaps: list[tuple[int, int, int]]) -> tuple[OffsetTranslation, list[tuple[int, int]]]:
    """Runs after gaps at source and target, thinned out as a ledger does, and the offsets of all records."""
    offsets, records = OffsetTranslation(), list[tuple[int, int]]()
    source = target = 0
    for number, (gap, length, marker) in enumerate(gaps):
        source, target = source + gap, target + marker
        offsets.add(number, CopiedRun(source, length, target))
        records += [(source + each, target + each) for each in range(length)]
        for old in offsets.superfluous(number):
            offsets.remove(old)
        source, target = source + length, target + length
    return offsets, records


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), min_size=1, max_size=300))
def test_translate_never_skips_a_record(gaps: list[tuple[int, int, int]]) -> None:
    offsets, records = copied(gaps)
    for offset in range(records[-1][0] + 2):
        translated = offsets.translate(offset)
        assert translated is not None
        assert all(target >= translated for source, target in records if source >= offset)


def test_translate_is_exact_within_new_runs() -> None:
    offsets, records = copied([(1, 4, 1)] * 30)
    assert [offsets.translate(source) for source, _ in records] == [target for _, target in records]


def test_few_runs_are_kept_and_most_of_them_are_new() -> None:
    offsets, _ = copied([(1, 1, 1)] * 20_000)
    assert len(offsets) < 400
    numbers = offsets.numbers()
    assert numbers[0] == 0
    assert set(range(20_000 - 32, 20_000)) <= set(numbers)


@for_each("offset", [0, 10, 14, 17, 20, 99])
def test_translate(offset: int) -> None:
    offsets = OffsetTranslation()
    offsets.add(0, CopiedRun(10, 5, 100))
    offsets.add(1, CopiedRun(20, 3, 200))
    expected = {0: 100, 10: 100, 14: 104, 17: 105, 20: 200, 99: 203}
    assert offsets.translate(offset) == expected[offset]


def test_translate_knows_nothing_without_runs() -> None:
    assert OffsetTranslation().translate(5) is None


def test_records_of_a_ledger_may_be_applied_again() -> None:
    offsets = OffsetTranslation()
    for number in (0, 1, 2, 1, 2):
        offsets.add(number, CopiedRun(10 * number, 5, 100 * number))
    assert offsets.numbers() == (0, 1, 2)
    assert offsets.translate(12) == 102
