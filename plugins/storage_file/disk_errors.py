"""Disk errors: how they are reported, and which of them mean that a log directory has failed.

Sources: KIP-112, KIP-858.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from tidelog.kernel import disk

_NOT_THE_DISK: Final = disk.FULL | frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EAGAIN,
        errno.EINTR,
        errno.EEXIST,
        errno.ENOTEMPTY,
        # A file that another program truncated while it was read.
        errno.ENODATA,
    }
)


class DiskErrorReporter(Protocol):
    """Object with files in a log directory."""

    def report_disk_error(self, error: OSError) -> None:
        """Report an error of the disk; any thread may call this."""
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


def means_failed_directory(error: OSError, root: Path) -> bool:
    """Return whether an error of a file operation below `root` means that the log directory has failed.

    A full disk does not, nor what the process ran out of, nor files that another program put there. A missing
    file was deleted by one, unless the directory itself is gone.
    """
    if error.errno in _NOT_THE_DISK:
        return False
    if error.errno == errno.ENOENT:
        return _is_gone(root)
    return True


def _is_gone(root: Path) -> bool:
    try:
        disk.stat(root)
    except OSError:
        return True
    return False
