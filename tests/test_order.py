from __future__ import annotations

from pathlib import Path

from tests.order import LONGEST, longest_first

ROOT = Path(__file__).parents[1]


def test_longest_first_keeps_the_order_of_all_other_files() -> None:
    ids = ["tests/b.py::one", f"{LONGEST[1]}::two[x::y]", "tests/a.py::three", f"{LONGEST[0]}::four"]
    assert sorted(ids, key=longest_first) == [ids[3], ids[1], ids[0], ids[2]]


def test_every_file_that_takes_long_is_there() -> None:
    assert not [file for file in LONGEST if not (ROOT / file).is_file()]
    assert len(set(LONGEST)) == len(LONGEST)
