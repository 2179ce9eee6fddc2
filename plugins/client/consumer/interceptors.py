"""Interceptors of a consumer: user code before records are returned and after offsets are committed.

They are the `ConsumerInterceptor` of Kafka's clients (KIP-42). What one raises is logged, once per second,
and the consumer continues without it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.kernel.rate_limit import RateLimit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.consumer_record import ConsumerRecord
    from tidelog.plugins.client.operations.group_offsets import GroupOffset

_LOG: Final = logging.getLogger(__name__)
_LOG_INTERVAL_S: Final = 1.0


class ConsumerInterceptor:
    """Base class of interceptors; each method does nothing unless it is overridden."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return the records to return in place of these, which count as read even if they are left out.

        Called in `poll` and in iterations, not for batches and tables.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        """Learn that offsets were committed. Called where callbacks of `commit_async` are; must not block."""

    def close(self) -> None:
        """Learn that the consumer is closed."""


class ConsumerInterceptors:
    """The interceptors of one consumer, each of which gets what the one before it has returned."""

    def __init__(self, interceptors: Sequence[ConsumerInterceptor]) -> None:
        self._interceptors = tuple(interceptors)
        self._limit = RateLimit(_LOG_INTERVAL_S)

    def __bool__(self) -> bool:
        return bool(self._interceptors)

    def consumed(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Return what the interceptors leave of these records."""
        for interceptor in self._interceptors:
            try:
                records = interceptor.on_consume(records)
            except Exception:
                self._log("on_consume")
        return records

    def committed(self, offsets: Mapping[TopicPartition, GroupOffset]) -> None:
        """Report a commit."""
        for interceptor in self._interceptors:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                self._log("on_commit")

    def close(self) -> None:
        """Report that the consumer is closed."""
        for interceptor in self._interceptors:
            try:
                interceptor.close()
            except Exception:
                self._log("close")

    def _log(self, method: str) -> None:
        suppressed = self._limit.admit(method)
        if suppressed is not None:
            more = f" ({suppressed} more since the last message)" if suppressed else ""
            _LOG.exception("%s of an interceptor of a consumer raised%s", method, more)
