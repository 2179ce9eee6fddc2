"""Operations as their drivers run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.plugins.client.fakes import ADDRESS
from tests.tables import for_each
from tidelog.plugins.client.errors import BrokerClosed
from tidelog.plugins.client.steps import Exchange, Pause, Run, Step, Steps, extra_time_s

CLOSED = BrokerClosed("broker", "Fetch", "restart")


@for_each(
    ("make", "extra_s"),
    [
        (lambda: Pause(2.5, is_extra=True), 2.5),
        (lambda: Pause(2.5), 0.0),
        (lambda: Exchange((ADDRESS,), ()), 0.0),
        (lambda: Exchange((ADDRESS,), (), max_delay_s=2.5), 0.0),
    ],
)
def test_only_a_pause_that_is_extra_postpones_the_deadline(make: Callable[[], Step], extra_s: float) -> None:
    assert extra_time_s(make()) == extra_s


def test_an_exchange_has_no_delay_and_the_newest_version_unless_it_says_so() -> None:
    exchange = Exchange((ADDRESS,), ("request",))
    assert (exchange.at_most, exchange.max_delay_s) == (None, 0.0)


class Operation:
    """An operation of two steps that continues after an error."""

    def __init__(self) -> None:
        self.is_closed = False

    def __call__(self) -> Steps[list[Any]]:
        """Return what the steps gave."""
        found: list[Any] = []
        try:
            for _ in range(2):
                try:
                    found.append((yield Pause(1)))
                except BrokerClosed as error:
                    found.append(error)
        finally:
            self.is_closed = True
        return found


def test_a_run_gives_the_outcome_of_each_step_to_the_operation() -> None:
    run = Run(Operation()())
    seen: list[Any] = [run.step]
    run.succeeded("first")
    seen += [run.step, run.last_error]
    run.failed(CLOSED)
    seen += [run.step, run.last_error]
    assert seen == [Pause(1), Pause(1), None, None, CLOSED]
    assert run.result == ["first", CLOSED]


def test_an_operation_without_steps_has_ended_at_once() -> None:
    def operation() -> Steps[int]:
        yield from ()
        return 7

    run = Run(operation())
    assert (run.step, run.result) == (None, 7)


def test_a_run_that_is_closed_cancels_the_operation() -> None:
    operation = Operation()
    run = Run(operation())
    run.close()
    assert operation.is_closed
