"""Requesting the producer id of an idempotent producer without transactions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.producer_ids import init_producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.producer.batch_results import BatchResults
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.producers import IdempotentProducer


class ProducerIdRequest:
    """One request at a time, with pauses after errors; `changed` is called after each answer."""

    def __init__(
        self,
        engine: Engine,
        numbers: SequenceNumbers,
        results: BatchResults,
        settings: ProducerSettings,
        changed: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._numbers = numbers
        self._results = results
        self._retry = settings.retry
        self._wants_idempotence = settings.wants_idempotence
        self._changed = changed
        self._is_sent = False
        self._next_at = 0.0
        self._failures = 0

    def send(self, now: float) -> float:
        """Request a producer id, unless that is done; return when it may be done again."""
        if self._is_sent:
            return math.inf
        if self._next_at > now:
            return self._next_at
        self._is_sent = True
        timeout_s = self._engine.session.settings.operation_timeout_s
        self._engine.spawn(init_producer(self._engine.session), self._answered, timeout_s=timeout_s)
        return math.inf

    def _answered(self, outcome: IdempotentProducer | ClientError) -> None:
        self._is_sent = False
        if not isinstance(outcome, ClientError):
            self._failures = 0
            self._numbers.assign(outcome.producer_id, outcome.producer_epoch)
        elif outcome.retriable:
            self._next_at = self._engine.clock() + self._retry.pause_s(self._failures)
            self._failures += 1
        elif self._wants_idempotence:
            self._results.fail_all(outcome)
        else:
            # Kafka before 0.11, or without the permission for it: retries may append twice.
            self._numbers.disable()
        self._changed()
