"""The suite of interceptors: those that ship pass it, and it finds each wrong one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import attrs
import pytest

from tests.tables import for_each
from tidelog.kernel.records.record import Record
from tidelog.kernel.request.rewriting import MisuseError
from tidelog.kernel.seams.interceptors import (
    BatchInfo,
    Change,
    FetchInfo,
    Interceptor,
    InterceptorContext,
    RefusedRecord,
)
from tidelog.kernel.seams.partition import AppendResult
from tidelog.kernel.testing.interceptors import InterceptorConformance as Suite
from tidelog.plugins.masking import plugin as masking
from tidelog.plugins.masking.conformance import MaskingConformance
from tidelog.plugins.schema_validation import plugin as schema_validation
from tidelog.plugins.schema_validation.conformance import SchemaValidationConformance


class TestMasking(MaskingConformance, plugin=masking): ...


class TestSchemaValidation(SchemaValidationConformance, plugin=schema_validation): ...


class Right(Interceptor):
    """Accepts all, and marks what is neither empty nor null."""

    def before_append(self, batch: BatchInfo) -> str | None:
        return "large" if batch.size_bytes > 10_000 else None

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        for record in records:
            yield self.marked(record)

    def marked(self, record: Record) -> Record:
        return attrs.evolve(record, value=b"!" + record.value) if record.value else record

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        return (None if record.value == b"{}" else record for record in records)

    def before_fetch(self, fetch: FetchInfo) -> bool:
        return fetch.client_id == "shop"


class DoesNothing(Interceptor): ...


class DropsOne(Right):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        return (record for record in records if record.value)


class DoublesEach(Right):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        for record in records:
            yield record
            yield record


class Reorders(Right):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        return reversed(list(records))


class MovesOffsets(Right):
    def marked(self, record: Record) -> Record:
        return attrs.evolve(record, offset=record.offset + 1)


class AnswersBytes(Right):
    def marked(self, record: Record) -> Any:
        return record.value


class HidesWhatIsProduced(Right):
    def marked(self, record: Record) -> Any:
        return None


class FailsWithoutAValue(Right):
    def marked(self, record: Record) -> Record:
        assert record.value is not None
        return record


class WantsText(Right):
    def marked(self, record: Record) -> Record:
        return attrs.evolve(record, value=(record.value or b"").decode().upper().encode())


class RemembersTheLastBatch(Right):
    last = b""

    def marked(self, record: Record) -> Record:
        self.last, last = record.value or b"", self.last
        return attrs.evolve(record, value=last)


class SharesAPlace(Right):
    """Right for one thread at a time."""

    def marked(self, record: Record) -> Record:
        self.value = record.value
        time.sleep(0)
        return attrs.evolve(record, value=self.value)


class RefusesTheAccepted(Right):
    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        return (RefusedRecord("no") for _ in records)


class RoutesByBytes(Right):
    def before_append(self, batch: BatchInfo) -> Any:
        return b"large"


class RoutesInTurns(Right):
    turn = 0

    def before_append(self, batch: BatchInfo) -> str | None:
        self.turn += 1
        return f"topic-{self.turn % 2}"


class FailsInBeforeAppend(Right):
    def before_append(self, batch: BatchInfo) -> str | None:
        raise KeyError(batch.topic)


class ReturnsTheOffset(Right):
    def after_append(self, batch: BatchInfo, result: AppendResult) -> Any:
        return result.base_offset


class FailsInAfterAppend(Right):
    def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
        raise ValueError(result)


class AnswersFetchesWithNone(Right):
    def before_fetch(self, fetch: FetchInfo) -> Any:
        return None


class RefusesShownRecords(Right):
    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Any:
        return (RefusedRecord("no") for _ in records)


class ShowsOnce(Right):
    def __init__(self, context: InterceptorContext) -> None:
        self.shown = set[int]()

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        for record in records:
            yield None if hash(record.value) in self.shown else record
            self.shown.add(hash(record.value))


class RefusesChangesByValueError(Right):
    def before_change(self, change: Change) -> None:
        raise ValueError(change)


class ChangesItsMind(Right):
    asked = 0

    def before_change(self, change: Change) -> None:
        self.asked += 1
        if not self.asked % 2:
            from tidelog.kernel.errors import PolicyViolation

            raise PolicyViolation("not now")


class BlocksInBeforeFetch(Right):
    def before_fetch(self, fetch: FetchInfo) -> bool:
        time.sleep(0.11)
        return True


class NoInterceptor:
    def __init__(self, context: InterceptorContext) -> None:
        pass


def suite_of(kind: type) -> Suite:
    class Kind:
        name = "proven-kind"

        def create(self, context: InterceptorContext) -> Any:
            return kind(context) if kind in (NoInterceptor, ShowsOnce) else kind()

    plugin: Any = ModuleType("proven_kind")
    plugin.tidelog_interceptors = lambda: [Kind()]
    return type("Proven", (Suite,), {}, plugin=plugin)()  # type: ignore[no-any-return]


def rewrites(suite: Suite) -> None:
    suite.test_rewrite_answers_for_each_record_in_order()


def in_threads(suite: Suite) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        suite.test_several_threads_may_call_it_at_once("rewrite")
    finally:
        sys.setswitchinterval(interval)


WRONG: dict[type, Callable[[Suite], None]] = {
    NoInterceptor: Suite.test_it_is_an_interceptor_that_does_something,
    DoesNothing: Suite.test_it_is_an_interceptor_that_does_something,
    DropsOne: rewrites,
    DoublesEach: rewrites,
    Reorders: rewrites,
    MovesOffsets: rewrites,
    AnswersBytes: rewrites,
    HidesWhatIsProduced: rewrites,
    FailsWithoutAValue: rewrites,
    WantsText: rewrites,
    RemembersTheLastBatch: lambda suite: suite.test_an_answer_depends_on_no_batch_before_it("rewrite"),
    SharesAPlace: in_threads,
    RefusesTheAccepted: Suite.test_rewrite_accepts_what_the_suite_was_given,
    RoutesByBytes: Suite.test_before_append_returns_a_topic_or_nothing_or_refuses,
    RoutesInTurns: Suite.test_before_append_returns_a_topic_or_nothing_or_refuses,
    FailsInBeforeAppend: Suite.test_before_append_returns_a_topic_or_nothing_or_refuses,
    ReturnsTheOffset: Suite.test_after_append_takes_note_and_returns_nothing,
    FailsInAfterAppend: Suite.test_after_append_takes_note_and_returns_nothing,
    AnswersFetchesWithNone: Suite.test_before_fetch_returns_whether_records_are_shown_or_refuses,
    RefusesShownRecords: Suite.test_show_answers_for_each_record_in_order,
    ShowsOnce: lambda suite: suite.test_an_answer_depends_on_no_batch_before_it("show"),
    RefusesChangesByValueError: Suite.test_before_change_returns_nothing_or_refuses,
    ChangesItsMind: Suite.test_before_change_returns_nothing_or_refuses,
    BlocksInBeforeFetch: Suite.test_no_call_blocks_the_event_loop,
}


@for_each("wrong", list(WRONG), ids=lambda wrong: wrong.__name__)
def test_interceptor_conformance_finds_a_wrong_one(wrong: type) -> None:
    WRONG[wrong](suite_of(Right))
    with pytest.raises((AssertionError, MisuseError, KeyError, ValueError)):
        WRONG[wrong](suite_of(wrong))
