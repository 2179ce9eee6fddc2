"""When the first batch of a partition may be sent, as far as that depends on the partition alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tidelog.plugins.client.producer.accumulator import is_before

if TYPE_CHECKING:
    from tidelog.plugins.client.producer.accumulator import PartitionQueue
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings


class SendTimes:
    """Rules of one producer: full and lingering batches, pauses after errors, order, deadlines.

    Attributes:
        is_flushing: nothing lingers
    """

    def __init__(self, numbers: SequenceNumbers, settings: ProducerSettings) -> None:
        self.is_flushing = False
        self._numbers = numbers
        self._acks = settings.required_acks
        self._batch_records = settings.batch_num_messages
        self._linger_s = settings.linger_ms / 1000
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._most_in_flight = settings.max_in_flight_requests_per_connection

    def ready_at(self, queue: PartitionQueue, now: float) -> float:
        """Return when the first batch may be sent, or when to look again if that is before."""
        if not queue.batches:
            return self.deadline(queue)
        if queue.is_encoding:
            return math.inf
        first, deadline = queue.batches[0], self.deadline(queue)
        if not self._keeps_order(queue, first):
            return deadline
        if queue.retry_at > now:
            return min(queue.retry_at, deadline)
        if first.is_closed or self.is_flushing or len(queue.batches) > 1:
            return now
        if len(first.records) >= self._batch_records:
            return now
        if queue.in_flight and self._acks:
            # Until the answer comes, more records may come for this batch: that is how batches grow with the
            # load though nothing lingers.
            return deadline
        return min(first.created + self._linger_s, deadline)

    def deadline(self, queue: PartitionQueue) -> float:
        """Return when the next batch expires, of those that have not."""
        batches = [batch.created for batch in queue.in_flight if not batch.is_done]
        if queue.batches:
            batches.append(queue.batches[0].created)
        return min(batches, default=math.inf) + self._delivery_timeout_s

    def _keeps_order(self, queue: PartitionQueue, first: Batch) -> bool:
        """Return whether the first batch may follow those that are in flight."""
        if queue.needs_epoch:
            return False
        if not queue.in_flight or not self._acks:
            return True
        # A broker takes any number of a producer that it does not know: if the first batch of a partition is
        # refused, as while a topic is new, it would append the second one in its place.
        if not self._numbers.is_enabled or not queue.is_known:
            return False
        if len(queue.in_flight) >= self._most_in_flight:
            return False
        return not (first.attempts and any(is_before(sent, first) for sent in queue.in_flight))
