from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.order import KAFKA, LONG_SPARK, LONGEST, SPARK, UNITS, in_turn, longest_first, place, unit_of_work

ROOT = Path(__file__).parents[1]


def test_longest_first_keeps_the_order_of_all_other_files() -> None:
    ids = ["tests/b.py::one", f"{LONGEST[1]}::two[x::y]", "tests/a.py::three", f"{LONGEST[0]}::four"]
    assert sorted(ids, key=longest_first) == [ids[3], ids[1], ids[0], ids[2]]


def test_every_file_that_takes_long_is_there() -> None:
    assert not [file for file in LONGEST if not (ROOT / file).is_file()]
    assert len(set(LONGEST)) == len(LONGEST)


def test_unit_of_work_is_the_file_but_one_for_all_that_share_spark_or_kafka() -> None:
    assert (
        unit_of_work("tests/a.py::one[x::y]")
        == unit_of_work("tests/a.py::two")
        != unit_of_work("tests/b.py::one")
    )
    for unit in UNITS:
        assert len({unit_of_work(f"{file}::test") for file in unit}) == 1


@pytest.mark.parametrize(
    ("unit", "fixture"),
    [
        (SPARK, r"\bspark: SparkSession"),
        (LONG_SPARK, r"\bspark: SparkSession"),
        (KAFKA, r"\bshared_kafka: str|\breal_broker: str|\bkafka: Asker"),
    ],
    ids=["spark", "long spark", "kafka"],
)
def test_every_file_that_shares_something_costly_is_in_its_unit_of_work(
    unit: tuple[str, ...], fixture: str
) -> None:
    using = {
        str(file.relative_to(ROOT))
        for file in ROOT.glob("tests/**/test_*.py")
        if re.search(fixture, file.read_text()) and file != Path(__file__)
    }
    assert using - {file for other in UNITS if other != unit for file in other} == set(unit)
    first = LONGEST.index(unit[0])
    assert LONGEST[first : first + len(unit)] == unit, "they come one after the other"


def test_place_is_the_same_in_whatever_order_files_were_collected() -> None:
    ids = [f"{LONGEST[0]}::b", f"{LONGEST[0]}::a", "tests/a.py::two", "tests/a.py::one", "tests/b.py::three"]
    assert sorted(ids, key=place) == sorted(ids[4:] + ids[:4], key=place) == ids


def test_in_turn_has_every_test_file_once_and_begins_elsewhere_in_each_process() -> None:
    orders = [in_turn(ROOT / "tests", worker, 4) for worker in range(4)]
    assert len({order[0] for order in orders}) == 4
    assert all(sorted(order) == sorted(orders[0]) for order in orders)
    found = [
        file
        for path in map(Path, orders[0])
        for file in ([path] if path.is_file() else path.rglob("test_*.py"))
    ]
    there = list((ROOT / "tests").rglob("test_*.py"))
    assert sorted(found) == sorted(there)
