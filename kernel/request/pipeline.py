"""Stages around a handler, in their order.

    before:  authentication → authorization → quota → metrics → log → faults → the handler
    after:   in the same order, with the response and the time it took; or with the error, if there is none

The composed handler is called like a bare one: it returns the response, or an awaitable of it. With a
throttle time it returns an awaitable of a `Throttled`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar, cast

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.requests import Request, RequestStage, Throttled

C_contra = TypeVar("C_contra", contravariant=True)


class MessageForm(Protocol[C_contra]):
    """What a pipeline needs to know of the messages of one version of an API, with a handler's context."""

    def describe(self, context: C_contra, message: Any) -> Request:
        """Return the request as stages get it."""
        ...

    def refuse(self, context: C_contra, message: Any, error: BrokerError) -> object:
        """Return the response to a request that is refused, or an awaitable of it; None for none."""
        ...

    def with_throttle_time(self, response: object, seconds: float) -> object:
        """Return a response with this throttle time."""
        ...


class StagedHandler(Generic[C_contra]):
    """A handler with the stages around it."""

    __slots__ = ("_clock", "_form", "_handle", "_stages")

    def __init__(
        self,
        stages: Sequence[RequestStage],
        handle: Callable[[C_contra, Any], object],
        form: MessageForm[C_contra],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`stages` are in the order in which they are called; `clock` returns seconds."""
        self._stages = stages
        self._handle = handle
        self._form = form
        self._clock = clock

    def __call__(self, context: C_contra, message: Any) -> object:
        """Handle a request."""
        request, started = self._form.describe(context, message), self._clock()
        try:
            outcome = self._begin(context, message, request, 0)
        # A cancellation too: a stage that counted the request in `before` has to hear how it ended.
        except BaseException as error:
            self._fail(request, error, started)
            raise
        if isinstance(outcome, Awaitable):
            return self._finish_later(request, cast("Awaitable[object]", outcome), started)
        done = self._finish(request, outcome, started)
        return _done(done) if type(done) is Throttled else done

    def _begin(self, context: C_contra, message: Any, request: Request, first: int) -> object:
        """Call the stages from number `first` on, then the handler; return the response, or an awaitable."""
        try:
            for number in range(first, len(self._stages)):
                decision = self._stages[number].before(request)
                if decision is not None:
                    return self._begin_once_decided(context, message, request, number + 1, decision)
        except BrokerError as error:
            return self._form.refuse(context, message, error)
        return self._handle(context, message)

    async def _begin_once_decided(
        self, context: C_contra, message: Any, request: Request, following: int, decision: Awaitable[None]
    ) -> object:
        try:
            await decision
        except BrokerError as error:
            outcome = self._form.refuse(context, message, error)
        else:
            outcome = self._begin(context, message, request, following)
        return await cast("Awaitable[object]", outcome) if isinstance(outcome, Awaitable) else outcome

    async def _finish_later(self, request: Request, outcome: Awaitable[object], started: float) -> object:
        try:
            response = await outcome
        except BaseException as error:
            self._fail(request, error, started)
            raise
        return self._finish(request, response, started)

    def _fail(self, request: Request, error: BaseException, started: float) -> None:
        seconds = self._clock() - started
        for stage in self._stages:
            stage.failed(request, error, seconds)

    def _finish(self, request: Request, response: object, started: float) -> object:
        seconds, throttle_s = self._clock() - started, 0.0
        for number, stage in enumerate(self._stages):
            try:
                wanted_s = stage.after(request, response, seconds)
            except BaseException as error:
                for following in self._stages[number + 1 :]:
                    following.failed(request, error, seconds)
                raise
            if wanted_s > throttle_s:
                throttle_s = wanted_s
                if response is not None:
                    response = self._form.with_throttle_time(response, throttle_s)
        return Throttled(response, throttle_s) if throttle_s else response


async def _done(throttled: Throttled) -> Throttled:
    return throttled
