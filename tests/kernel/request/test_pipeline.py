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
        return Request(API, "PLAINTEXT", "127.0.0.1", 4711, ANONYMOUS, context, 40, message)

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

    def before(self, request: Request) -> Awaitable[None] | None:
        self.calls.append(f"{self.name} before {request.message}")
        return None

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        self.calls.append(f"{self.name} after {response} {seconds}")
        return self.throttle_s

    def failed(self, request: Request, error: BaseException, seconds: float) -> None:
        self.calls.append(f"{self.name} failed {type(error).__name__} {seconds}")


class Refusing(Stage):
    """Refuses every request."""

    def before(self, request: Request) -> None:
        super().before(request)
        raise ClusterAuthorizationFailed("not you")


class Asking(Stage):
    """Is told by somebody else whether a request may go on."""

    def __init__(self, name: str, calls: list[str], answers: trio.MemoryReceiveChannel[bool]) -> None:
        super().__init__(name, calls)
        self.answers = answers

    def before(self, request: Request) -> Awaitable[None]:
        super().before(request)
        return self._ask()

    async def _ask(self) -> None:
        if not await self.answers.receive():
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
        handler(calls, Broken("one", calls), Stage("two", calls))("me", "x")
    assert calls == ["one failed ZeroDivisionError 1.0", "two failed ZeroDivisionError 1.0"]


def test_an_error_after_the_handler_is_told_to_the_stages_that_follow(calls: list[str]) -> None:
    class Broken(Stage):
        def after(self, request: Request, response: object | None, seconds: float) -> float:
            raise ZeroDivisionError

    stages = Stage("one", calls), Broken("two", calls), Stage("three", calls)
    with pytest.raises(ZeroDivisionError):
        handler(calls, *stages)("me", "x")
    assert calls[-2:] == ["one after X 1.0", "three failed ZeroDivisionError 1.0"]


async def test_stages_are_told_of_a_handler_that_fails_or_is_given_up(calls: list[str]) -> None:
    async def fail(context: str, message: str) -> str:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError

    async def wait(context: str, message: str) -> str:
        await trio.sleep_forever()

    for handle in (fail, wait):
        staged = StagedHandler([Stage("one", calls)], handle, Form(), iter((10.0, 17.0)).__next__)
        with pytest.raises(ZeroDivisionError) if handle is fail else trio.move_on_after(0):
            await cast("Awaitable[object]", staged("me", "x"))
    assert calls[1::2] == ["one failed ZeroDivisionError 7.0", "one failed Cancelled 7.0"]


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_follows_waits_until_a_stage_has_decided(allowed: bool, calls: list[str]) -> None:
    answer, answers = trio.open_memory_channel[bool](2)
    stages = Asking("one", calls, answers), Stage("two", calls), Asking("three", calls, answers)
    outcome = cast("Awaitable[object]", handler(calls, *stages)("me", "x"))
    assert calls == ["one before x"]
    for each in (True, allowed):
        answer.send_nowait(each)
    response = "X" if allowed else "refused x: not you"
    assert await outcome == response
    handled = ["handle x"] if allowed else []
    afterwards = [f"{name} after {response} 1.0" for name in ("one", "two", "three")]
    assert calls == ["one before x", "two before x", "three before x", *handled, *afterwards]
