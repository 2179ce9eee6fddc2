"""How a client behaves: names, limits on time and size, and how it tries again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import attrs

from tidelog.plugins.client.connection import DEFAULT_MAX_RESPONSE_BYTES
from tidelog.plugins.client.versions import SOFTWARE_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator


@attrs.frozen
class RetryPolicy:
    """Tries after the first one, and the pauses before them: doubling, up to a limit, with jitter.

    The defaults are Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`; all pauses together are about 6 s.
    """

    retries: int = 10
    backoff_s: float = 0.1
    max_backoff_s: float = 1.0
    jitter: float = 0.2

    def pauses(self) -> Iterator[float]:
        """One pause in seconds for each further try."""
        for attempt in range(self.retries):
            pause = min(self.backoff_s * 2**attempt, self.max_backoff_s)
            yield pause * random.uniform(1 - self.jitter, 1 + self.jitter)


@attrs.frozen
class ClientSettings:
    """What a client can be told.

    Attributes:
        client_id: the name that brokers log
        request_timeout_s: for one answer, `request.timeout.ms` of Kafka's clients
        operation_timeout_s: for an operation with all of its tries, their `default.api.timeout.ms`
        connect_timeout_s: for one address, with the first exchange (`socket.connection.setup.timeout.ms`)
        max_response_bytes: a longer response is refused and its connection given up
        retry: how often and when an operation tries again
    """

    client_id: str = SOFTWARE_NAME
    request_timeout_s: float = 30.0
    operation_timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    retry: RetryPolicy = RetryPolicy()
