"""Reports of refused file operations to the log directory that they concern.

Whether an error means that the directory has failed is decided in `directories/`. Sources: KIP-112, KIP-858.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""There is no room; the disk itself is well."""


class DiskErrorReporter(Protocol):
    """An object whose files lie in a log directory."""

    def report_disk_error(self, error: OSError) -> None:
        """Report that the disk refused an operation; any thread may call this."""
        ...


_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T", bound=DiskErrorReporter)


def reports_disk_errors(method: Callable[Concatenate[_T, _P], _R]) -> Callable[Concatenate[_T, _P], _R]:
    """Decorate a method so that its `OSError`s are reported, and raised as before."""

    @wraps(method)
    def reporting(self: _T, /, *arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return method(self, *arguments, **named)
        except OSError as error:
            self.report_disk_error(error)
            raise

    return reporting
