"""Types of values: what each text means, what is refused and why, and that format and parse agree."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.kernel.config import (
    Password,
    ValueType,
    boolean,
    choice,
    comma_list,
    double,
    integer,
    limits_by_host,
    long,
    names_by_listener,
    nullable,
    optional,
    or_unlimited,
    password,
    string,
)
from tidelog.kernel.config.types import INT_MAX, INT_MIN, LONG_MAX, LONG_MIN

VALID: list[tuple[ValueType[object], str, object]] = [
    (integer(), " 42 ", 42),
    (integer(), "+7", 7),
    (integer(), "2147483647", INT_MAX),
    (integer(-1), "-1", -1),
    (integer(), "\u0663", 3),
    (long(), "9223372036854775807", LONG_MAX),
    (double(), "0.5", 0.5),
    (double(), "1.7976931348623157E308", 1.7976931348623157e308),
    (double(0, 1), "1", 1.0),
    (double(), " +.5f", 0.5),
    (double(), "5.e-1D", 0.5),
    (double(), "0x1.8p-1", 0.75),
    (double(), "-Infinity", -math.inf),
    (boolean(), "TRUE", True),
    (boolean(), " false", False),
    (string(), " a b ", "a b"),
    (string(), "", ""),
    (choice("CreateTime", "LogAppendTime"), "LogAppendTime", "LogAppendTime"),
    (comma_list(), "", ()),
    (comma_list(), " a , b", ("a", "b")),
    (comma_list(repeated="kept"), "a,a", ("a", "a")),
    (comma_list("a", "b", repeated="dropped"), "a, b,a", ("a", "b")),
    (nullable(long(1)), "", None),
    (nullable(long(1)), "5", 5),
    (optional(long(1)), "5", 5),
    (or_unlimited(long(1)), "-7", -1),
    (or_unlimited(integer(1)), "7", 7),
    (password(), " p ", Password(" p ")),
    (limits_by_host(), "10.0.0.1:5,[::1]:0,host:7", {"10.0.0.1": 5, "::1": 0, "host": 7}),
    (names_by_listener(""), "internal:PLAINTEXT, OUT:SSL", {"INTERNAL": "PLAINTEXT", "OUT": "SSL"}),
]


@for_each(("kind", "text", "value"), VALID)
def test_parse_returns_the_value_of_a_valid_text(kind: ValueType[object], text: str, value: object) -> None:
    assert kind.parse(text) == value


INVALID: list[tuple[ValueType[object], str, str]] = [
    (integer(), "", "is not a whole number (int)"),
    (integer(), "1.5", "is not a whole number (int)"),
    (integer(), "1_000", "is not a whole number (int)"),
    (integer(), "-+1", "is not a whole number (int)"),
    (integer(), "\u00b3", "is not a whole number (int)"),
    (integer(), "2147483648", "does not fit the type int"),
    (integer(), "9" * 10_000, "does not fit the type int"),
    (integer(1), "0", "is out of range (>= 1)"),
    (integer(1, 1), "3", "is out of range (1)"),
    (integer(1, 9), "10", "is out of range (1 to 9)"),
    (integer(maximum=9), "10", "is out of range (<= 9)"),
    (long(), "-9223372036854775809", "does not fit the type long"),
    (double(), "half", "is not a number (double)"),
    (double(), "nan", "is not a number (double)"),
    (double(), "NaN", "is not a number (double)"),
    (double(), "inf", "is not a number (double)"),
    (double(), "1_0", "is not a number (double)"),
    (double(), "0x1", "is not a number (double)"),
    (double(0, 1), "1.1", "is out of range (0 to 1)"),
    (double(0), "-1", "is out of range (>= 0)"),
    (boolean(), "yes", "is neither true nor false"),
    (string(non_empty=True), "  ", "is empty"),
    (choice("a", "b"), "A", "is none of a, b"),
    (comma_list(), "a,,b", "has an empty item"),
    (comma_list(), "a,a", "names something twice"),
    (comma_list("x", "y"), "x,z", "has 'z', but may have any of x, y"),
    (nullable(long(1)), "0", "is out of range (>= 1)"),
    (optional(long(1)), "", "is not a whole number (long)"),
    (or_unlimited(long(1)), "0", "is out of range (>= 1); a negative number is no limit"),
    (or_unlimited(integer(1)), "-2147483649", "does not fit the type int"),
    (comma_list(non_empty=True), " ", "is empty"),
    (limits_by_host(), "10.0.0.1", "has '10.0.0.1', which is no host:number pair"),
    (limits_by_host(), ":5", "has ':5', which is no host:number pair"),
    (limits_by_host(), "a:-1", "has '-1' for a, which is out of range (>= 0)"),
    (limits_by_host(), "a:1,a:2", "names a twice"),
    (names_by_listener(""), "A", "has 'A', which is no LISTENER:name pair"),
    (names_by_listener(""), "a:x,A:y", "names A twice"),
]


@for_each(("kind", "text", "reason"), INVALID)
def test_parse_refuses_an_invalid_text_with_the_reason(
    kind: ValueType[object], text: str, reason: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared whole
        kind.parse(text)
    assert str(caught.value) == reason


JAVA: list[tuple[float, str]] = [
    (0, "0.0"),
    (-0.0, "-0.0"),
    (0.5, "0.5"),
    (0.001, "0.001"),
    (9e-4, "9.0E-4"),
    (1.25e-5, "1.25E-5"),
    (9999999.5, "9999999.5"),
    (1e7, "1.0E7"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
    (math.inf, "Infinity"),
    (-math.inf, "-Infinity"),
]


@for_each(("number", "text"), JAVA)
def test_doubles_are_formatted_as_java_does(number: float, text: str) -> None:
    assert double().format(number) == text


ALLOWED: list[tuple[ValueType[object], str]] = [
    (integer(), ""),
    (long(0), ">= 0"),
    (nullable(long(1)), ">= 1; empty: unset"),
    (optional(long(1)), ">= 1"),
    (or_unlimited(long(1)), ">= 1, or negative: no limit"),
    (comma_list(non_empty=True), "no duplicates; not empty"),
    (double(0, 1), "0 to 1"),
    (boolean(), "true, false"),
    (comma_list("a", "b"), "any of a, b; no duplicates"),
]


@for_each(("kind", "words"), ALLOWED)
def test_the_range_is_told_in_words(kind: ValueType[object], words: str) -> None:
    assert kind.allowed == words


def test_a_password_never_shows() -> None:
    secret = password().parse("hunter2")
    assert secret.value == "hunter2"
    assert password().format(secret) == str(secret) == "[hidden]"
    assert "hunter2" not in repr(secret)


words = st.text(st.characters(codec="utf-8", exclude_characters=","), min_size=1).map(str.strip).filter(bool)
hosts = st.ip_addresses().map(str) | st.from_regex(r"[a-z][a-z0-9.]{0,20}", fullmatch=True)


@given(st.integers(LONG_MIN, LONG_MAX))
def test_longs_survive_text(number: int) -> None:
    assert long().parse(long().format(number)) == number
    if not INT_MIN <= number <= INT_MAX:
        with pytest.raises(ValueError, match="does not fit"):
            integer().parse(str(number))


@given(st.floats(allow_nan=False))
def test_doubles_survive_text(number: float) -> None:
    assert double().parse(double().format(number)) == number


@given(st.lists(words, unique=True).map(tuple))
def test_comma_list_round_trips_through_text(items: tuple[str, ...]) -> None:
    assert comma_list().parse(comma_list().format(items)) == items


@given(st.dictionaries(hosts, st.integers(0, INT_MAX)))
def test_limits_by_host_round_trips_through_text(limits: dict[str, int]) -> None:
    assert limits_by_host().parse(limits_by_host().format(limits)) == limits


@given(st.text())
def test_no_text_breaks_a_parser(text: str) -> None:
    for kind in (
        integer(),
        long(),
        double(),
        boolean(),
        comma_list(),
        limits_by_host(),
        names_by_listener(""),
    ):
        with suppress(ValueError):
            kind.parse(text)
