"""An answer that a task waits for."""

from __future__ import annotations

from typing import Generic, TypeVar

import trio

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.coordinator.classic_groups.replies import Durable

T = TypeVar("T")


class WaitingReply(Generic[T]):
    """A `Reply` with somebody behind it, who may have left by the time it is set."""

    __slots__ = ("_answered", "_durable", "_outcome")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._outcome: T | BrokerError | None = None
        self._durable: Durable | None = None

    def set(self, outcome: T | BrokerError, durable: Durable | None = None) -> None:
        """See `Reply`."""
        self._outcome = outcome
        self._durable = durable
        self._answered.set()

    def nowait(self) -> T | None:
        """The answer if it can be given at once.

        Raises:
            BrokerError: that is the answer.
        """
        if self._durable is not None or self._outcome is None:
            return None
        if isinstance(self._outcome, BrokerError):
            raise self._outcome
        return self._outcome

    async def wait(self) -> T:
        """The answer.

        Raises:
            BrokerError: that is the answer, or what keeps it from being given.
        """
        await self._answered.wait()
        if self._durable is not None:
            await self._durable()
        outcome = self._outcome
        if isinstance(outcome, BrokerError):
            raise outcome
        assert outcome is not None  # noqa: S101 -- `set` was called
        return outcome
