"""One interceptor that is in use: for which topics and listeners it is, and what its failures lead to."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from tidelog.kernel.errors import InterceptorFailed, InterceptorTimedOut
from tidelog.kernel.rate_limit import RateLimit
from tidelog.kernel.regexes import Regex
from tidelog.kernel.request.interceptor_threads import TookTooLong
from tidelog.kernel.seams.interceptors import Interceptor

_log = logging.getLogger(__name__)

LOG_INTERVAL_S: Final = 1.0
"""How often each interceptor has a line in the log."""
SLOW_SECONDS: Final = 0.01
"""A method on the event loop that takes longer is logged: all connections wait for it."""


class ActiveInterceptor:
    """An interceptor with its name and what the configuration says of it."""

    def __init__(
        self,
        name: str,
        interceptor: Interceptor,
        *,
        topics: Regex | None = None,
        listeners: Sequence[str] = (),
        passes: bool = False,
        timeout_s: float = 5.0,
        limit: RateLimit | None = None,
    ) -> None:
        """Take `topics` None and `listeners` () for all; with `passes` failures are passed over."""
        self.name = name
        self.interceptor = interceptor
        self.timeout_s = timeout_s
        self._topics = topics
        self._listeners = frozenset(listeners)
        self._passes = passes
        self._limit = limit or RateLimit(LOG_INTERVAL_S)
        # Methods run in threads, too.
        self._log_lock = threading.Lock()

    def overrides(self, method: str) -> bool:
        """Return whether it has a method of its own in place of the default."""
        return getattr(type(self.interceptor), method) is not getattr(Interceptor, method)

    def is_for_topic(self, topic: str) -> bool:
        """Return whether it is for this topic."""
        return self._topics is None or self._topics.fullmatch(topic)

    def is_for(self, listener: str, topic: str) -> bool:
        """Return whether it is for this topic and clients of this listener."""
        return (not self._listeners or listener in self._listeners) and self.is_for_topic(topic)

    def failed(self, doing: str, error: Exception) -> None:
        """Log a failure; return if it is passed over.

        Raises:
            InterceptorTimedOut, InterceptorFailed: it is not.
        """
        timed_out = isinstance(error, TookTooLong)
        what = f"took longer than {self.timeout_s:g} s" if timed_out else _words(error)
        outcome = "passed over" if self._passes else "refused"
        self._warn(f"the interceptor {self.name} {what} in {doing}, which is {outcome}", error)
        if self._passes:
            return
        if timed_out:
            raise InterceptorTimedOut(f"the interceptor {self.name} took too long; send it again") from None
        raise InterceptorFailed(
            f"the interceptor {self.name} failed; the log of the broker says why"
        ) from None

    def note_failure(self, doing: str, error: Exception) -> None:
        """Log a failure that can refuse nothing."""
        self._warn(f"the interceptor {self.name} {_words(error)} in {doing}", error)

    def note_slow(self, doing: str, seconds: float) -> None:
        """Log that a method has held the event loop for so long."""
        held = f"held the event loop for {seconds * 1000:.0f} ms"
        self._warn(f"the interceptor {self.name} {held} in {doing}", None)

    def _warn(self, text: str, error: Exception | None) -> None:
        with self._log_lock:
            suppressed = self._limit.admit(self.name)
        if suppressed is None:
            return
        more = f" ({suppressed} more in between)" if suppressed else ""
        # The place where its time was over is that of this broker.
        trace = None if isinstance(error, TookTooLong) else error
        _log.error("%s%s", text, more, exc_info=trace)


def _words(error: Exception) -> str:
    return f"failed with {type(error).__name__}: {error}"
