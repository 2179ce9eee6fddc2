"""What becomes of batches: in the log, sent again, split, failed or expired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.errors import ClientError, DeliveryTimedOut, ErrorResponse
from tidelog.plugins.client.producer.verdicts import ProduceVerdict, verdict_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.producer.accumulator import Accumulator, PartitionQueue
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.produce_exchange import Attempt
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.producer.transactions import ProducerTransactions
    from tidelog.plugins.protocol_kafka.messages.produce import PartitionProduceResponse


class BatchResults:
    """Gives batches their results; `finished` is called with each batch that has one."""

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator[Any],
        numbers: SequenceNumbers,
        transactions: ProducerTransactions | None,
        settings: ProducerSettings,
        finished: Callable[[Batch], None],
    ) -> None:
        self._clock = engine.clock
        self._cluster = engine.session.cluster
        self._accumulator = accumulator
        self._numbers = numbers
        self._transactions = transactions
        self._retry = settings.retry
        self._retries = settings.retries
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._finished = finished

    def complete(self, queue: PartitionQueue, batch: Batch, attempt: Attempt) -> None:
        """Apply the outcome of an attempt to its batch, which was in flight."""
        queue.in_flight.remove(batch)
        error, part = attempt.error, attempt.part
        if error is not None and verdict_of(error) is not ProduceVerdict.APPENDED:
            self._failed_attempt(queue, batch, error, attempt)
            return
        queue.failures = 0
        queue.retry_at = 0.0
        self._numbers.acknowledged(queue)
        if batch.is_done:
            return
        self._accumulator.release(batch)
        if error is not None or part is None:
            batch.succeed(-1, -1)
        else:
            batch.succeed(part.base_offset, part.log_append_time_ms)
        self._report(batch)

    def expire(self, queue: PartitionQueue, now: float) -> None:
        """Fail the batches of a partition whose time is up."""
        oldest = now - self._delivery_timeout_s
        for batch in queue.in_flight:
            # It stays in flight: what follows in the partition depends on its answer.
            if batch.created <= oldest and not batch.is_done:
                self.fail(batch, self._timed_out(batch, is_sent=True))
        while queue.batches and (queue.batches[0].created <= oldest or not queue.batches[0].records):
            if queue.is_encoding:
                return
            batch = queue.take_first()
            if not batch.records:
                # All were dropped from the full queue.
                self._accumulator.release(batch)
                batch.finish()
                self._report(batch)
                continue
            self._numbers.failed(queue, batch)
            self.fail(batch, self._timed_out(batch, is_sent=batch.is_in_doubt))

    def fail(self, batch: Batch, error: ClientError, record_errors: Any = None) -> None:
        """Fail a batch that is no longer queued; `record_errors` are by the index in it."""
        if self._transactions is not None:
            error = self._transactions.failed(error)
        self._accumulator.release(batch)
        batch.fail(error, record_errors)
        self._report(batch)

    def fail_waiting(self, error: ClientError) -> None:
        """Fail the records that wait for the metadata of their topics."""
        for topic in self._accumulator.topics.values():
            waiting = self._accumulator.fail_waiting(topic, error)
            if waiting is not None:
                self._finished(waiting)

    def fail_queued(self, error: ClientError) -> None:
        """Fail what is not in flight, since the transaction is aborted."""
        self.fail_waiting(error)
        for queue in list(self._accumulator.active):
            while queue.batches:
                batch = queue.take_first()
                self._numbers.failed(queue, batch)
                self.fail(batch, error)

    def fail_all(self, error: ClientError) -> None:
        """Fail everything that waits or is in flight."""
        self.fail_waiting(error)
        for queue in list(self._accumulator.active):
            batches = [*queue.in_flight, *queue.batches]
            queue.batches.clear()
            queue.open = None
            for batch in batches:
                if not batch.is_done:
                    self.fail(batch, error)

    def _failed_attempt(
        self, queue: PartitionQueue, batch: Batch, error: ClientError, attempt: Attempt
    ) -> None:
        verdict = verdict_of(error)
        batch.last_error = error
        is_new_leader = self._learn_leader(queue, error, attempt)
        if verdict in (ProduceVerdict.RETRY_IN_DOUBT, ProduceVerdict.FAIL_IN_DOUBT):
            batch.is_in_doubt = True
        if batch.is_done:
            # Its time was up while it was in flight.
            self._numbers.failed(queue, batch)
        elif verdict is ProduceVerdict.SPLIT and len(batch.records) > 1:
            self._accumulator.add_parts(queue, batch)
        elif self._may_repeat(queue, batch, verdict):
            if verdict is ProduceVerdict.NUMBER_AGAIN:
                queue.needs_epoch = True
            queue.put_back(batch)
            if not is_new_leader and verdict in (ProduceVerdict.RETRY, ProduceVerdict.RETRY_IN_DOUBT):
                queue.retry_at = self._clock() + self._retry.pause_s(queue.failures)
                queue.failures += 1
        else:
            self._numbers.failed(queue, batch)
            self.fail(batch, *_for_records(error, attempt.part))

    def _may_repeat(self, queue: PartitionQueue, batch: Batch, verdict: ProduceVerdict) -> bool:
        if verdict is ProduceVerdict.RETRY_IN_ORDER:
            return queue.needs_epoch or not self._numbers.is_lowest(queue, batch)
        if verdict is ProduceVerdict.NUMBER_AGAIN:
            return self._numbers.is_enabled and not self._numbers.is_transactional
        is_retry = verdict in (ProduceVerdict.RETRY, ProduceVerdict.RETRY_IN_DOUBT)
        return is_retry and batch.attempts <= self._retries

    def _learn_leader(self, queue: PartitionQueue, error: ClientError, attempt: Attempt) -> bool:
        """Use what an error says about a partition's leader; return whether it names another one."""
        if isinstance(error, ErrorResponse) and not error.code.refreshes_metadata:
            return False
        if attempt.part is not None and attempt.part.current_leader.leader_id >= 0:
            leader = attempt.part.current_leader
            if self._cluster.lead(queue.partition, leader.leader_id, leader.leader_epoch, attempt.brokers):
                return True
        if not isinstance(error, ErrorResponse) and not error.retriable:
            return False
        self._cluster.forget_topic(queue.partition.topic)
        return False

    def _timed_out(self, batch: Batch, *, is_sent: bool) -> DeliveryTimedOut:
        where = str(batch.partition)
        return DeliveryTimedOut(where, self._delivery_timeout_s, batch.last_error, is_sent=is_sent)

    def _report(self, batch: Batch) -> None:
        self._finished(batch)
        parent = batch.parent
        if parent is not None and all(part.is_done for _, part in parent.parts):
            parent.records = []
            parent.finish()
            self._report(parent)


def _for_records(
    error: ClientError, part: PartitionProduceResponse | None
) -> tuple[ClientError, dict[int, ClientError]]:
    """Return the error of a batch, and those of the records that are its cause (KIP-467)."""
    if part is None or not part.record_errors or not isinstance(error, ErrorResponse):
        return error, {}
    own: dict[int, ClientError] = {
        each.batch_index: ErrorResponse(error.code, error.subject, each.batch_index_error_message)
        for each in part.record_errors
    }
    others = "another record of the batch was refused"
    return ErrorResponse(error.code, error.subject, others), own
