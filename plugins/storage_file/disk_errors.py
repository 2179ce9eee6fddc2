"""Telling of a disk that refused, whoever asked it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class Teller(Protocol):
    """Somebody who passes on that the disk refused."""

    def tell(self, error: OSError) -> None:
        """Pass it on."""
        ...


_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound=Teller)


def telling(method: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
    """A method whose errors of the disk are told, and raised as before."""

    @wraps(method)
    def told(self: _T, /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(self, *arguments, **named)
        except OSError as error:
            self.tell(error)
            raise

    return told
