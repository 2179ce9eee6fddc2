"""Every error that one broker returns without faults or settings of its own: as Apache Kafka returns it."""

from __future__ import annotations

from itertools import starmap, zip_longest
from typing import Any

from .asking import Asker, plain
from .error_cases import CASES, Case
from .prepared import prepare

GENERATED = frozenset({"member_id", "topic_id"})
"""Fields of which brokers generate the values, each its own."""
TEXTS = frozenset({"error_message", "batch_index_error_message"})


def _codes(answer: Any) -> set[int]:
    """All error codes in an answer."""
    if isinstance(answer, dict):
        own = {value for name, value in answer.items() if name.endswith("error_code")}
        return own.union(*(_codes(value) for value in answer.values()))
    return set().union(*map(_codes, answer)) if isinstance(answer, list) else set()


def _masked(answer: Any, kafka: Any) -> Any:
    """An answer without generated values, and without texts where Kafka has none."""
    if isinstance(answer, dict) and isinstance(kafka, dict):
        return {name: _masked_field(name, value, kafka.get(name)) for name, value in answer.items()}
    if isinstance(answer, list) and isinstance(kafka, list):
        return list(starmap(_masked, zip_longest(answer, kafka)))
    return bytes(answer) if isinstance(answer, memoryview) else answer


def _masked_field(name: str, value: Any, kafka: Any) -> Any:
    if name in TEXTS:
        return kafka and bool(value)
    return bool(value) if name in GENERATED else _masked(value, kafka)


def _difference(case: Case, kafka: Any, tidelog: Any) -> str | None:
    """What is wrong with the answers to a case, None if nothing is."""
    theirs = plain(kafka)
    expected, found = _masked(theirs, theirs), _masked(plain(tidelog), theirs)
    if expected != found:
        return f"{case.api.name} {case.version} {case.error.name}: Kafka {expected}\n    tidelog {found}"
    if case.error not in _codes(found):
        return f"{case.api.name} {case.version}: no {case.error.name} in {found}"
    return None


def test_errors_are_as_in_kafka(kafka: Asker, tidelog: Asker) -> None:
    sides = [prepare(asker) for asker in (kafka, tidelog)]
    wrong: list[str] = []
    for case in CASES:
        answers = [side.ask(case.api, case.version, case.values(side)) for side in sides]
        if problem := _difference(case, *answers):
            wrong.append(problem)
    assert not wrong, "\n".join(wrong)
