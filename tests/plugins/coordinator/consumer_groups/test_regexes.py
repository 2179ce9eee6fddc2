"""Expressions that clients send."""

from __future__ import annotations

from tidelog.plugins.coordinator.consumer_groups.regexes import compile_regex


def test_compile_regex_returns_a_new_expression_for_each_call() -> None:
    first = compile_regex("fl.*")
    assert first.fullmatch("flights")
    assert compile_regex("fl.*") is not first
