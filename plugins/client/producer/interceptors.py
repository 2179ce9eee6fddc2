"""Interceptors of a producer: user code before a record is queued and after it is acknowledged.

They are the `CallbackHandler` and the `EventHandler` of Kafka's first producers, and the
`ProducerInterceptor` of today's. What one raises is logged, and the record is sent without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs

from tidelog.kernel.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.producer.delivery import RecordMetadata

_LOG: Final = logging.getLogger(__name__)
_LOG_INTERVAL_S: Final = 1.0
"""A callback may raise for each of millions of records."""


@attrs.define
class ProducerRecord:
    """Record as `send` got it, before it is encoded."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class ProducerInterceptor:
    """Base class of interceptors; each method does nothing unless it is overridden."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to queue in place of this one; called in `send`, before encoders."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        """Learn what became of a record: one of the two is None. Called where callbacks are."""

    def close(self) -> None:
        """Learn that the producer is closed."""


class UserCalls:
    """Calls code of the user, and logs what it raises, once per second and place."""

    def __init__(self) -> None:
        self._limit = RateLimit(_LOG_INTERVAL_S)

    def call(self, place: str, function: Callable[..., Any], *args: Any) -> None:
        """Call a function; what it returns or raises makes no difference."""
        try:
            function(*args)
        except Exception:
            self.log(place)

    def log(self, place: str) -> None:
        """Log the error that is being handled."""
        suppressed = self._limit.admit(place)
        if suppressed is not None:
            more = f" ({suppressed} more since the last message)" if suppressed else ""
            _LOG.exception("%s of a producer raised%s", place, more)
