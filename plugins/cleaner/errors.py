"""Why a log was not rewritten."""

from __future__ import annotations

from tidelog.kernel.errors import TidelogError


class RewriteAborted(TidelogError):
    """The log changed, or is being moved: the rewrite was given up, and nothing is lost."""


class RewriteFailed(TidelogError):
    """The worker could not do its job; the message says why. The log is as it was, or partly rewritten."""


class LogCorrupt(RewriteFailed):
    """A part of the log cannot be read, now or later; the message says which."""


class WorkerDied(TidelogError):
    """The worker process has ended in the middle of its work; the message says how."""
