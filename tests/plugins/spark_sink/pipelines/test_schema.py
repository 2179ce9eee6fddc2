"""Schemas and lists of columns, as Spark reads them."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.spark_sink.pipelines.schema import check_schema, split_columns


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a INT", ("a",)),
        ("a int,b:string , `c d` DOUBLE NOT NULL COMMENT 'x, y'", ("a", "b", "c d")),
        ("a ARRAY<MAP<STRING, STRUCT<x: INT, y: DECIMAL(10,2)>>>, b VARCHAR(5)", ("a", "b")),
        ('a decimal, b timestamp_ntz comment "it\'s"', ("a", "b")),
    ],
)
def test_check_schema_names_the_fields(text: str, names: tuple[str, ...]) -> None:
    assert check_schema(text) == names


@for_each(
    ("text", "problem"),
    [
        ("", "has 'the end' where the name of a field is expected"),
        ("a", "has no type for a"),
        ("a INT b INT", "has 'b' where a comma or the end is expected"),
        ("a INT,", "where the name of a field is expected"),
        ("a INTEGR", "has the type INTEGR for a, which Spark does not know; did you mean INTEGER?"),
        ("a QQ", "there are: BOOLEAN"),
        ("a ARRAY", "has 'the end' where < is expected"),
        ("a ARRAY<INT", "has 'the end' where > is expected"),
        ("a MAP<STRING>", "has '>' where , is expected"),
        ("a STRUCT<x INT", "where a comma or > is expected"),
        ("a DECIMAL(x)", "other than numbers in the parentheses of DECIMAL"),
        ("a DECIMAL(1,2,3)", "has DECIMAL with 3 numbers"),
        ("a VARCHAR", "has VARCHAR with 0 numbers"),
        ("a INT NOT", "where NULL is expected"),
        ("a INT COMMENT x", "comment of x that is not in quotes"),
        ("a INT, A LONG", "has the field a twice"),
        ("a INT; b INT", "cannot be read from '; b INT' on"),
    ],
)
def test_check_schema_refuses_what_spark_would(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        check_schema(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a", ("a",)),
        ("a, b AS c", ("a", "b AS c")),
        ("concat(a, ',', b[1]) AS d, `x,y`, \"it's, \"", ("concat(a, ',', b[1]) AS d", "`x,y`", '"it\'s, "')),
    ],
)
def test_split_columns_keeps_commas_in_brackets_and_quotes(text: str, items: tuple[str, ...]) -> None:
    assert split_columns(text) == items


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,,b", "has an empty item"),
        ("f(a", r"has a \( that is not closed"),
        ("f(a]", "has a ] that nothing opens"),
        ("a)", r"has a \) that nothing opens"),
        ("'a", "has a ' that is not closed"),
    ],
)
def test_split_columns_refuses_what_is_not_closed(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        split_columns(text)
