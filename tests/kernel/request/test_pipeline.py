"""The pipeline of a request: stages in their order around a handler that returns at once, or waits."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, cast

import pytest
import trio

from tidelog.kernel.errors import BrokerError, ClusterAuthorizationFailed
from tidelog.kernel.request import StagedHandler
from tidelog.kernel.seams.requests import (
    ANONYMOUS,
    Phase,
    Request,
    RequestedApi,
    RequestStage,
    Throttled,
)

API = RequestedApi(0, "Produce", 9, ())


class Form:
    """Messages that are text."""

    def describe(self, context: str, message: Any) -> Request:
        """A request of this client."""
        return Request(API, "PLAINTEXT", "127.0.0.1", 4711, ANONYMOUS, context, message)

    def refuse(self, context: str, message: Any, error: BrokerError) -> object:
        """The error as text."""
        return f"refused {message}: {error}"

    def with_throttle_time(self, response: object, seconds: float) -> object:
        """The response and the time."""
        return f"{response} after {seconds}"


class Stage(RequestStage):
    """Notes its calls."""

    def __init__(self, name: str, calls: list[str], throttle_s: float = 0.0) -> None:
        self.phase = Phase.LOG
        self.name = name
        self.calls = calls
        self.throttle_s = throttle_s

    def before(self, request: Request) -> None:
        self.calls.append(f"{self.name} before {request.message}")

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        self.calls.append(f"{self.name} after {response} {seconds}")
        return self.throttle_s


class Refusing(Stage):
    """Refuses every request."""

    def before(self, request: Request) -> None:
        super().before(request)
        raise ClusterAuthorizationFailed("not you")


@pytest.fixture
def calls() -> list[str]:
    return []


def handler(calls: list[str], *stages: RequestStage) -> StagedHandler[str]:
    def handle(context: str, message: str) -> str:
        calls.append(f"handle {message}")
        return message.upper()

    ticks = iter(range(100))
    return StagedHandler(stages, handle, Form(), lambda: float(next(ticks)))


def test_stages_are_called_in_order_before_and_after_the_handler(calls: list[str]) -> None:
    assert handler(calls, Stage("one", calls), Stage("two", calls))("me", "x") == "X"
    assert calls == ["one before x", "two before x", "handle x", "one after X 1.0", "two after X 1.0"]


def test_a_refusal_ends_what_is_called_before_and_every_stage_gets_the_response(calls: list[str]) -> None:
    stages = Stage("one", calls), Refusing("two", calls), Stage("three", calls)
    refused = "refused x: not you"
    assert handler(calls, *stages)("me", "x") == refused
    afterwards = [f"{name} after {refused} 1.0" for name in ("one", "two", "three")]
    assert calls == ["one before x", "two before x", *afterwards]


async def test_the_longest_throttle_time_is_in_the_response_that_later_stages_get(calls: list[str]) -> None:
    stages = Stage("one", calls, 2.0), Stage("two", calls, 5.0), Stage("three", calls, 1.0)
    outcome = handler(calls, *stages)("me", "x")
    assert isinstance(outcome, Awaitable)
    assert await cast("Awaitable[object]", outcome) == Throttled("X after 2.0 after 5.0", 5.0)
    assert calls[-1] == "three after X after 2.0 after 5.0 1.0"


async def test_stages_get_a_response_that_had_to_wait(calls: list[str]) -> None:
    may_end = trio.Event()

    async def handle(context: str, message: str) -> str:
        await may_end.wait()
        return "late"

    staged = StagedHandler([Stage("one", calls)], handle, Form(), iter((10.0, 17.0)).__next__)
    outcome = cast("Awaitable[object]", staged("me", "x"))
    assert calls == ["one before x"]
    may_end.set()
    assert await outcome == "late"
    assert calls[1:] == ["one after late 7.0"]


async def test_a_request_without_a_response_is_throttled_too(calls: list[str]) -> None:
    staged = StagedHandler([Stage("one", calls, 3.0)], lambda _context, _message: None, Form(), lambda: 0.0)
    assert await cast("Awaitable[object]", staged("me", "x")) == Throttled(None, 3.0)


def test_an_error_that_is_none_of_the_brokers_is_raised(calls: list[str]) -> None:
    class Broken(Stage):
        def before(self, request: Request) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        handler(calls, Broken("one", calls))("me", "x")
    assert calls == []
