"""One test for a table still names each case that fails."""

from __future__ import annotations

import pytest

from tests.tables import for_each

seen: list[tuple[int, str]] = []


@for_each(("number", "text"), [(1, "a"), pytest.param(2, "b", id="second")])
def test_for_each_calls_the_function_with_each_case_and_with_fixtures(
    number: int, text: str, request: pytest.FixtureRequest
) -> None:
    assert request.node.name == "test_for_each_calls_the_function_with_each_case_and_with_fixtures"
    seen.append((number, text))


def test_for_each_has_called_the_function_for_all_cases() -> None:
    assert seen in ([], [(1, "a"), (2, "b")]), "the test above, if it was run"


@for_each("number", range(6), ids=lambda number: f"no. {number}")
def odd(number: int) -> None:
    assert number % 2, "even"


@for_each("number", [1, 3, 4, 5], ids=["one", "three", "four", "five"])
def mostly_odd(number: int) -> None:
    if not number % 2:
        pytest.fail("even")


def test_for_each_tries_every_case_and_names_those_that_failed() -> None:
    with pytest.raises(ExceptionGroup, match="3 of 6 cases failed") as raised:
        odd()
    notes = [error.__notes__[-1] for error in raised.value.exceptions]
    assert notes == ["in the case no. 0", "in the case no. 2", "in the case no. 4"]
    with pytest.raises(pytest.fail.Exception, match="even") as failed:
        mostly_odd()
    assert failed.value.__notes__ == ["in the case four"]


def test_for_each_refuses_an_empty_table() -> None:
    with pytest.raises(AssertionError, match="number is empty"):
        for_each("number", [])
