"""Why a log was not rewritten."""

from __future__ import annotations

from tidelog.kernel.errors import TidelogError


class RewriteAborted(TidelogError):
    """The log changed, or is being moved: the rewrite was given up, and nothing is lost."""


class RewriteFailed(TidelogError):
    """The log cannot be rewritten; the message says why. It is as it was, or partly rewritten."""


class WorkerDied(TidelogError):
    """The worker process has ended in the middle of its work; the message says how."""
