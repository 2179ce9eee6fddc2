from __future__ import annotations

from pathlib import Path

from tests.order import LONGEST, SPARK, longest_first, unit_of_work

ROOT = Path(__file__).parents[1]


def test_longest_first_keeps_the_order_of_all_other_files() -> None:
    ids = ["tests/b.py::one", f"{LONGEST[1]}::two[x::y]", "tests/a.py::three", f"{LONGEST[0]}::four"]
    assert sorted(ids, key=longest_first) == [ids[3], ids[1], ids[0], ids[2]]


def test_every_file_that_takes_long_is_there() -> None:
    assert not [file for file in LONGEST if not (ROOT / file).is_file()]
    assert len(set(LONGEST)) == len(LONGEST)


def test_unit_of_work_is_the_file_but_one_for_all_that_have_spark() -> None:
    assert (
        unit_of_work("tests/a.py::one[x::y]")
        == unit_of_work("tests/a.py::two")
        != unit_of_work("tests/b.py::one")
    )
    assert len({unit_of_work(f"{file}::test") for file in SPARK}) == 1


def test_every_file_that_has_spark_is_in_its_unit_of_work() -> None:
    using = {
        str(file.relative_to(ROOT))
        for file in ROOT.glob("tests/**/test_*.py")
        if "spark: SparkSession" in file.read_text() and file != Path(__file__)
    }
    assert using == set(SPARK)
    first = LONGEST.index(SPARK[0])
    assert LONGEST[first : first + len(SPARK)] == SPARK, "they come one after the other"
