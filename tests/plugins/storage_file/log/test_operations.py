"""Which operations on a log's segments may meet, and what becomes of them then."""

from __future__ import annotations

import itertools
import re
import threading

import pytest

from tests.deadlines import DEADLINE_S
from tests.docs.examples import DOCS
from tidelog.kernel.errors import LogBusy
from tidelog.plugins.storage_file.log import operations as module
from tidelog.plugins.storage_file.log.operations import (
    RULES,
    Change,
    Operation,
    OperationAborted,
    Operations,
    Rule,
)

PAIRS = [(under_way, begins) for under_way, row in RULES.items() for begins in row]
ENDLESS = {Operation.CLOSE, Operation.FAIL}


@pytest.fixture
def operations() -> Operations:
    """Those of a log that nothing is done to."""
    return Operations("orders-0")


class Turn(threading.Condition):
    """Tells when a thread begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.settled = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, as any condition."""
        self.settled.set()
        return super().wait(timeout)


@pytest.fixture(autouse=True)
def turn(monkeypatch: pytest.MonkeyPatch) -> Turn:
    """What operations wait for their turn with."""
    noticing = Turn()
    monkeypatch.setattr(module, "_TURN", noticing)
    return noticing


class Beginning:
    """An operation that is begun in a thread, for it may have to wait."""

    def __init__(self, operations: Operations, operation: Operation, turn: Turn) -> None:
        self.error: Exception | None = None
        self._begun = threading.Event()
        self._settled = turn.settled
        self._settled.clear()
        self._thread = threading.Thread(target=self._begin, args=(operations, operation), daemon=True)
        self._thread.start()

    def _begin(self, operations: Operations, operation: Operation) -> None:
        try:
            operations.end(operations.begin(operation))
        except (LogBusy, KeyError) as error:
            self.error = error
        self._begun.set()
        self._settled.set()

    def waits(self) -> bool:
        """Whether it waits for its turn; otherwise it has begun, or was refused."""
        assert self._settled.wait(DEADLINE_S)
        return not self._begun.is_set()

    def done(self) -> bool:
        """Whether it has begun, or was refused, within some seconds."""
        return self._begun.wait(DEADLINE_S)


def meet(
    operations: Operations, under_way: Operation, begins: Operation, turn: Turn
) -> tuple[Rule, list[Change]]:
    """What really happens when two operations meet, and what the first one is told."""
    changes: list[Change] = []
    first = operations.begin(under_way, changes.append)
    second = Beginning(operations, begins, turn)
    if second.waits():
        operations.end(first)
        assert second.done()
        return Rule.WAITS, changes
    if second.error is not None:
        assert isinstance(second.error, LogBusy)
        return Rule.REFUSED, changes
    if first.aborted_by is not None:
        assert first.aborted_by is begins
        return Rule.ABORTS, changes
    with operations.during(begins) as again:
        operations.inform(again, 3, 7)
    return Rule.INFORMS if changes else Rule.TOGETHER, changes


@pytest.mark.parametrize(("under_way", "begins"), PAIRS, ids=lambda operation: operation.value)
def test_operations_follow_the_table_of_rules(
    operations: Operations, under_way: Operation, begins: Operation, turn: Turn
) -> None:
    rule, changes = meet(operations, under_way, begins, turn)
    assert rule is RULES[under_way][begins]
    assert changes == ([Change(begins, 3, 7)] if rule is Rule.INFORMS else [])


MISSING = [pair for pair in itertools.product(Operation, Operation) if pair not in PAIRS]


@pytest.mark.parametrize(("under_way", "begins"), MISSING, ids=lambda operation: operation.value)
def test_operations_begin_raises_for_a_pair_that_is_not_in_the_table(
    operations: Operations, under_way: Operation, begins: Operation
) -> None:
    first = operations.begin(under_way)
    with pytest.raises(KeyError):
        operations.begin(begins)
    # And it has changed nothing.
    assert first.aborted_by is None
    operations.end(first)
    operations.end(operations.begin(begins))


def test_operations_that_cannot_meet_are_a_move_and_what_its_decision_excludes() -> None:
    assert {pair for pair in MISSING if Operation.SWAP not in pair} == {(Operation.MOVE, Operation.MOVE)}
    swapping = {under_way for under_way, begins in MISSING if begins is Operation.SWAP}
    assert swapping == set(Operation) - {Operation.DELETE}
    # A move becomes a swap; of the others none is under way any more, or the move was aborted.
    for under_way in swapping - {Operation.MOVE, Operation.SWAP} - ENDLESS:
        excluded = {RULES[under_way].get(Operation.MOVE), RULES[Operation.MOVE].get(under_way)}
        assert excluded & {Rule.ABORTS, Rule.WAITS}, under_way


@pytest.mark.parametrize("under_way", Operation)
def test_operation_fail_never_waits_since_it_begins_on_the_event_loop(under_way: Operation) -> None:
    assert RULES[under_way][Operation.FAIL] in (Rule.TOGETHER, Rule.ABORTS)


@pytest.mark.parametrize("endless", [each for each in Operation if each in ENDLESS])
def test_operations_never_wait_for_one_that_never_ends(endless: Operation) -> None:
    assert Rule.WAITS not in RULES[endless].values()


def test_operations_begin_when_the_last_that_they_wait_for_has_ended(
    operations: Operations, turn: Turn
) -> None:
    draft = operations.begin(Operation.DRAFT)
    deletion = operations.begin(Operation.DELETE)
    truncation = Beginning(operations, Operation.TRUNCATE, turn)
    assert truncation.waits()
    # Nothing is aborted by one that has not begun.
    assert draft.aborted_by is None
    operations.end(deletion)
    assert truncation.done()
    assert draft.aborted_by is Operation.TRUNCATE


def test_operation_that_is_refused_aborts_nothing(operations: Operations) -> None:
    move = operations.begin(Operation.MOVE)
    with pytest.raises(LogBusy, match="orders-0: no replace while it has: move"):
        operations.begin(Operation.REPLACE)
    operations.end(move)
    draft = operations.begin(Operation.DRAFT)
    closed = operations.begin(Operation.CLOSE)
    assert draft.aborted_by is Operation.CLOSE
    with pytest.raises(LogBusy, match="close"):
        operations.begin(Operation.MOVE)
    operations.end(closed)


def test_operations_during_ends_an_operation_that_raises(operations: Operations) -> None:
    def fail() -> None:
        with operations.during(Operation.REPLACE):
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - any
        fail()
    operations.begin(Operation.REPLACE)


def test_operations_advance_to_a_swap_when_deletions_have_ended(operations: Operations, turn: Turn) -> None:
    move = operations.begin(Operation.MOVE)
    deletion = operations.begin(Operation.DELETE)
    swap = threading.Thread(target=operations.advance, args=(move, Operation.SWAP), daemon=True)
    swap.start()
    assert turn.settled.wait(DEADLINE_S)
    assert operations.under_way == [Operation.MOVE, Operation.DELETE]
    operations.end(deletion)
    swap.join(DEADLINE_S)
    assert operations.under_way == [Operation.SWAP]
    later = Beginning(operations, Operation.TRUNCATE, turn)
    assert later.waits()
    operations.end(move)
    assert later.done()
    assert move.aborted_by is None


def test_operations_advance_refuses_a_move_that_was_aborted(operations: Operations) -> None:
    move = operations.begin(Operation.MOVE)
    with operations.during(Operation.TRUNCATE), pytest.raises(OperationAborted, match="a truncate aborted"):
        operations.advance(move, Operation.SWAP)
    # It is not under way any more, so another one may begin.
    operations.end(move)
    operations.begin(Operation.MOVE)


def test_operations_advance_refuses_a_move_that_is_aborted_while_it_waits(
    operations: Operations, turn: Turn
) -> None:
    move = operations.begin(Operation.MOVE)
    deletion = operations.begin(Operation.DELETE)
    errors: list[Exception] = []

    def swap() -> None:
        try:
            operations.advance(move, Operation.SWAP)
        except OperationAborted as error:
            errors.append(error)

    waiting = threading.Thread(target=swap, daemon=True)
    waiting.start()
    assert turn.settled.wait(DEADLINE_S)
    failed = operations.begin(Operation.FAIL)
    operations.end(deletion)
    waiting.join(DEADLINE_S)
    assert len(errors) == 1
    operations.end(failed)


def test_operations_table_is_in_the_documentation() -> None:
    page = (DOCS / "storage.md").read_text()
    header, *rows = re.findall(r"^\| (?:in progress|\*\*\w+\*\*) \|.*\|$", page, re.MULTILINE)
    columns = [name.strip() for name in header.split("|")[2:-1]]
    assert columns == [operation.value for operation in Operation]
    written = {
        (under_way.strip(" *"), begins): rule.strip()
        for row in rows
        for under_way, *rules in [row.split("|")[1:-1]]
        for begins, rule in zip(columns, rules, strict=True)
    }
    assert written == {
        (under_way.value, begins.value): rule.value if (rule := RULES[under_way].get(begins)) else "–"
        for under_way, begins in itertools.product(Operation, Operation)
    }
    for rule in Rule:
        assert f"- *{rule.value}*: " in page
