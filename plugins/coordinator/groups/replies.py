"""Replies to requests that wait for other members, or for the disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeAlias, TypeVar

import trio

from tidelog.kernel.errors import BrokerError

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

Durable: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until what was written for a reply may be acknowledged; raises the BrokerError that prevents it."""


class Reply(Protocol[T_contra]):
    """Interface of a state machine to a waiting request."""

    def set(self, outcome: T_contra | BrokerError, durable: Durable | None = None) -> None:
        """Answer, once; with `durable` not before that returned."""
        ...


class WaitingReply(Generic[T]):
    """A `Reply` that a task waits for; the task may have been cancelled by the time that it is set."""

    __slots__ = ("_answered", "_durable", "_outcome")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._outcome: T | BrokerError | None = None
        self._durable: Durable | None = None

    def set(self, outcome: T | BrokerError, durable: Durable | None = None) -> None:
        """Answer, once; with `durable` not before that returned."""
        self._outcome = outcome
        self._durable = durable
        self._answered.set()

    def nowait(self) -> T | None:
        """Return the reply if it can be given at once, else None.

        Raises:
            BrokerError: the reply is that error.
        """
        if self._durable is not None or self._outcome is None:
            return None
        if isinstance(self._outcome, BrokerError):
            raise self._outcome
        return self._outcome

    async def wait(self) -> T:
        """Return the reply, once it may be given.

        Raises:
            BrokerError: the reply is that error, or what was written for it cannot be acknowledged.
        """
        await self._answered.wait()
        if self._durable is not None:
            await self._durable()
        outcome = self._outcome
        if isinstance(outcome, BrokerError):
            raise outcome
        assert outcome is not None  # noqa: S101 -- `set` was called
        return outcome
