"""Sender: which batches are sent to which broker and when.

`pump` does all that is possible now, and sets a timer for the next time at which something may be. It is
called after every event: records that were queued, a response, metadata, a timer. So there is no state
"sending": what a partition may do follows from its queue (`send_times.py`), and what becomes of a batch from
the answer (`batch_results.py`).

A partition has several batches in flight only where sequence numbers keep their order: with an idempotent
producer. When one of them has to be sent again, those after it wait until it is acknowledged.

Sources: Apache Kafka, `Sender`; KIP-91 for the deadline of deliveries, KIP-951 for new leaders in responses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.producer.batch_encoder import BatchEncoder
from tidelog.plugins.client.producer.produce_exchange import Attempt, ProduceExchange
from tidelog.plugins.client.producer.producer_id_request import ProducerIdRequest
from tidelog.plugins.client.producer.send_times import SendTimes
from tidelog.plugins.client.producer.topic_lookups import TopicLookups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.producer.accumulator import Accumulator, PartitionQueue
    from tidelog.plugins.client.producer.batch_results import BatchResults
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.produce_exchange import ProduceOutcome, Sent
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.producer.transactions import ProducerTransactions


class BatchSender:
    """Sends what an accumulator has, and passes what becomes of it to `results`.

    Attributes:
        times: when a partition may send
    """

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator[Any],
        numbers: SequenceNumbers,
        transactions: ProducerTransactions | None,
        results: BatchResults,
        settings: ProducerSettings,
        finished: Callable[[Batch], None],
        calls_due: Callable[[], None],
    ) -> None:
        """Call `calls_due` when the accumulator has callbacks.

        Raises:
            ValueError: the compression is unknown.
        """
        self.times = SendTimes(numbers, settings)
        self._engine = engine
        self._cluster = engine.session.cluster
        self._accumulator = accumulator
        self._numbers = numbers
        self._transactions = transactions
        self._results = results
        self._encoder = BatchEncoder(engine.io, settings, results, self.pump)
        self._exchange = ProduceExchange(engine.session.cluster, numbers, settings)
        self._producer_id = ProducerIdRequest(engine, numbers, results, settings, self.pump)
        self._lookups = TopicLookups(engine, accumulator, settings, self.pump, finished)
        self._calls_due = calls_due
        self._max_request_size = settings.max_request_size
        self._most_in_flight = settings.max_in_flight_requests_per_connection
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._throttled: dict[int, float] = {}
        self._timer: EngineTimer | None = None

    def pump(self) -> None:
        """Send all that can be sent now."""
        accumulator, now = self._accumulator, self._engine.clock()
        accumulator.needs_pump = False
        if accumulator.calls:
            self._calls_due()
        if self._engine.is_closed:
            return
        if accumulator.new_topics:
            topics, accumulator.new_topics = accumulator.new_topics, []
            for topic in topics:
                self._lookups.look_up(topic, now)
        due = math.inf
        while True:
            by_node, due = self._ready(now)
            if not by_node:
                break
            for node, queues in by_node.items():
                self._send(node, queues)
        self._set_timer(due)

    def restart_numbers(self) -> None:
        """Begin every partition at 0, with the new epoch after an abort."""
        for topic in self._accumulator.topics.values():
            for queue in topic.queues:
                self._numbers.restart(queue)
        self.pump()

    def _ready(self, now: float) -> tuple[dict[int, list[PartitionQueue]], float]:
        """Return the queues whose first batch can be sent, by leader, and when others may be."""
        by_node: dict[int, list[PartitionQueue]] = {}
        sizes: defaultdict[int, int] = defaultdict(int)
        due = math.inf
        is_known = self._numbers.is_known
        for queue in tuple(self._accumulator.active):
            self._tidy(queue, now)
            when = self.times.ready_at(queue, now)
            if when > now:
                due = min(due, when)
                continue
            due = min(due, self.times.deadline(queue))
            if not is_known:
                due = min(due, self._producer_id.send(now))
                continue
            if self._transactions is not None and not self._transactions.admits(
                queue.partition, self._transaction_changed
            ):
                continue
            node = self._cluster.leader(queue.partition)
            if node is None:
                due = min(due, self._lookups.refresh(now))
            elif self._throttled.get(node, 0.0) > now:
                due = min(due, self._throttled[node])
            elif self._in_flight[node] < self._most_in_flight and self._encoder.is_encoded(queue):
                size = _encoded_bytes(queue.batches[0])
                if not sizes[node] or sizes[node] + size <= self._max_request_size:
                    sizes[node] += size
                    by_node.setdefault(node, []).append(queue)
        return by_node, due

    def _tidy(self, queue: PartitionQueue, now: float) -> None:
        """Take batches out of a queue that cannot be sent any more, and the queue if nothing is left."""
        self._results.expire(queue, now)
        if queue.needs_epoch and not queue.in_flight and self._transactions is None:
            for batch, error in self._numbers.renew(queue):
                self._results.fail(batch, error)
        if not (queue.batches or queue.in_flight):
            self._accumulator.active.pop(queue, None)

    def _send(self, node: int, queues: Sequence[PartitionQueue]) -> None:
        sent: Sent = []
        for queue in queues:
            batch = queue.take_first()
            batch.sent_records = len(batch.records)
            self._numbers.number(queue, batch)
            batch.attempts += 1
            queue.in_flight.append(batch)
            sent.append((queue, batch))
        self._in_flight[node] += 1
        self._engine.spawn(
            self._exchange.run(self._engine.session, node, sent),
            lambda outcome: self._answered(node, sent, outcome),
        )

    def _answered(self, node: int, sent: Sent, outcome: ProduceOutcome | ClientError | None) -> None:
        self._in_flight[node] -= 1
        if outcome is None or isinstance(outcome, ClientError):
            attempt = Attempt(outcome)
            for queue, batch in sent:
                self._results.complete(queue, batch, attempt)
        else:
            if outcome.throttle_ms:
                self._throttled[node] = self._engine.clock() + outcome.throttle_ms / 1000
            for queue, batch, attempt in outcome.attempts:
                self._results.complete(queue, batch, attempt)
        self.pump()

    def _transaction_changed(self, error: ClientError | None) -> None:
        if error is not None:
            self._results.fail_queued(error)
        self.pump()

    def _set_timer(self, due: float) -> None:
        timer = self._timer
        if timer is not None and timer.call is not None:
            if timer.when <= due and timer.when > self._engine.clock():
                return
            timer.cancel()
        self._timer = None if due == math.inf else self._engine.call_at(due, self._timer_ended)

    def _timer_ended(self) -> None:
        self._timer = None
        self.pump()


def _encoded_bytes(batch: Batch) -> int:
    if batch.encoded is None:
        raise AssertionError("a batch is encoded before it is sent")
    return len(batch.encoded.records)
