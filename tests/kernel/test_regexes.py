"""Expressions that clients and configurations give."""

from __future__ import annotations

from tidelog.kernel.regexes import compile_regex


def test_compile_regex_returns_a_new_expression_for_each_call() -> None:
    first = compile_regex("fl.*")
    assert first.fullmatch("flights")
    assert compile_regex("fl.*") is not first
