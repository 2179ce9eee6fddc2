"""The table of docs/testing.md is updated row by row."""

from __future__ import annotations

from pathlib import Path

from tests.mutation.page import Row, rows_of, with_rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()


def test_rows_replace_those_of_the_same_module_and_stay_sorted() -> None:
    first = with_rows(PAGE, [Row("kernel/b.py", 10, 10, 9), Row("kernel/a.py", 3, 2, 2)])
    second = with_rows(first, [Row("kernel/b.py", 11, 11, 11)])

    added = [row for row in rows_of(second) if row.module in ("kernel/a.py", "kernel/b.py")]
    assert added == [Row("kernel/a.py", 3, 2, 2), Row("kernel/b.py", 11, 11, 11)]
    assert [row for row in rows_of(second) if row not in added] == rows_of(PAGE)


def test_the_text_around_the_table_stays() -> None:
    assert with_rows(PAGE, rows_of(PAGE)) == PAGE


def test_the_page_names_modules_that_exist() -> None:
    assert [row.module for row in rows_of(PAGE) if not (ROOT / row.module).is_file()] == []
