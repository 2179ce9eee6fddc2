"""Expressions that clients and configurations give: bounded, and matched where that holds no one up."""

from __future__ import annotations

import threading

import pytest

from tests.turns import turns_of_another_task
from tidelog.kernel import regex_matching as module
from tidelog.kernel.errors import InvalidRegularExpression
from tidelog.kernel.regex_matching import match_all, matching
from tidelog.kernel.regexes import MAX_PROGRAM_SIZE, compile_regex

HARD = "(.*a){200}"
"""Each character costs each instruction: about 10 µs."""


def test_compile_regex_returns_a_new_expression_for_each_call() -> None:
    first = compile_regex("fl.*")
    assert first.fullmatch("flights")
    assert not first.fullmatch("a flight")
    assert first.search("a flight")
    assert compile_regex("fl.*") is not first


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(.?){999}z", f"instructions, more than {MAX_PROGRAM_SIZE}; count less in its repetitions"),
        ("x" * 5000, "longer than"),
        ("(", "is not a regular expression of RE2"),
        ("(?!x)y", "is not a regular expression of RE2"),
    ],
)
def test_compile_regex_refuses_what_is_malformed_or_compiled_to_too_much(regex: str, reason: str) -> None:
    with pytest.raises(InvalidRegularExpression, match=reason):
        compile_regex(regex)


def test_compile_regex_takes_a_long_list_of_names() -> None:
    names = [f"{number * 7919 % 10007:05}-topic" for number in range(300)]
    assert all(map(compile_regex("|".join(names)).fullmatch, names))


@pytest.mark.parametrize(
    ("regex", "texts", "in_thread"),
    [
        ("flights-.*", ["flights-1", "other"], False),
        ("flights-.*", ["flights-1", "other"] * 600, True),
        (HARD, ["ab" * 200], True),
        (HARD, ["a" * 200], True),
    ],
)
async def test_matching_takes_a_thread_for_what_may_take_long(
    monkeypatch: pytest.MonkeyPatch, regex: str, texts: list[str], in_thread: bool
) -> None:
    threads: list[int] = []
    match_in_place = module._match_all  # pyright: ignore[reportPrivateUsage]

    def noting(*arguments: object) -> object:
        threads.append(threading.get_ident())
        return match_in_place(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_match_all", noting)
    compiled = compile_regex(regex)
    assert await matching(compiled, texts) == frozenset(filter(compiled.fullmatch, texts))
    assert [each != threading.get_ident() for each in threads] == [in_thread]


async def test_matching_lets_other_tasks_run_meanwhile() -> None:
    async with turns_of_another_task() as turns:
        assert await matching(compile_regex(HARD), ["ba" * 5000]) == {"ba" * 5000}
    assert turns.count > 1


async def test_matching_ends_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MATCHING_SECONDS", 0.0)
    compiled = compile_regex(HARD)
    with pytest.raises(InvalidRegularExpression, match="takes more than 0 s to match"):
        await matching(compiled, ["ab" * 500] * 1000)


async def test_match_all_matches_nothing_with_a_malformed_expression() -> None:
    """Another broker may have accepted it."""
    assert await match_all(["a.*", "("], ["ab", "b"]) == {"a.*": {"ab"}, "(": frozenset()}


async def test_match_all_leaves_out_what_does_not_get_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MATCHING_SECONDS", -1.0)
    assert await match_all(["a.*", "b.*"], ["ab", "b"]) == {}
