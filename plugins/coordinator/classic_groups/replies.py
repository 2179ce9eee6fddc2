"""An answer that somebody waits for while a group makes up its mind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

from tidelog.kernel.errors import BrokerError

T_contra = TypeVar("T_contra", contravariant=True)

Durable: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until what was written for an answer may be acknowledged; raises what kept it from being so."""


class Reply(Protocol[T_contra]):
    """What a state machine knows of somebody who waits."""

    def set(self, outcome: T_contra | BrokerError, durable: Durable | None = None) -> None:
        """Answer, once; with `durable` not before that returned."""
        ...
