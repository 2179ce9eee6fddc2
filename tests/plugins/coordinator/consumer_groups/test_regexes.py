"""Expressions that clients send."""

from __future__ import annotations

from tidelog.plugins.coordinator.consumer_groups.regexes import compile_regex


def test_a_compiled_expression_is_kept_by_nobody_else() -> None:
    first = compile_regex("fl.*")
    assert first.fullmatch("flights")
    assert compile_regex("fl.*") is not first
