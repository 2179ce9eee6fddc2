"""Sender: which batches are sent to which broker and when, and what follows from the answers.

`pump` does all that is possible now, and sets a timer for the next time at which something may be. It is
called after every event: records that were queued, a response, metadata, a timer. So there is no state
"sending": what a partition may do follows from its queue, by `_ready_at`.

A partition has several batches in flight only where sequence numbers keep their order: with an idempotent
producer. When one of them has to be sent again, those after it wait until it is acknowledged.

Sources: Apache Kafka, `Sender`; KIP-91 for the deadline of deliveries, KIP-951 for new leaders in responses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.records import compression
from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import EncodedBatch, codec_of
from tidelog.plugins.client.cluster import NO_TOPIC_ID, Address, ClusterMetadata
from tidelog.plugins.client.errors import (
    ClientError,
    DeliveryTimedOut,
    ErrorResponse,
)
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.producer_ids import (
    LAST_VERSION_BEFORE_TRANSACTION_V2,
    LAST_VERSION_BY_NAME,
    init_producer,
)
from tidelog.plugins.client.operations.sending import refresh, send_request
from tidelog.plugins.client.producer.accumulator import is_before
from tidelog.plugins.client.producer.formats import encode, packed
from tidelog.plugins.client.producer.verdicts import ProduceVerdict, verdict_of
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.producer.accumulator import Accumulator, PartitionQueue, TopicQueues
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.producer.transactions import ProducerTransactions
    from tidelog.plugins.client.producers import IdempotentProducer
    from tidelog.plugins.client.steps import Session, Steps

COMPRESSED_IN_THREAD_BYTES: Final = 64 * 1024
"""Smaller batches are compressed at once: to hand them to a thread takes about as long."""
QUICKLY_COMPRESSED_IN_THREAD_BYTES: Final = 256 * 1024
"""The same with codecs that compress so much in a fraction of a millisecond."""
_MOST_METADATA_S: Final = 30.0

Sent = list[tuple["PartitionQueue", "Batch"]]


class BatchSender:
    """Sends what an accumulator has; `finished` is called with each batch once it has its result."""

    def __init__(
        self,
        engine: Engine,
        accumulator: Accumulator[Any],
        numbers: SequenceNumbers,
        settings: ProducerSettings,
        finished: Callable[[Batch], None],
    ) -> None:
        """Raise ValueError for an unknown compression."""
        self.is_flushing = False
        self.transactions: ProducerTransactions | None = None
        if settings.transactional_id is not None:
            # Imported where it is used: it takes a fifth of the time of all imports of a producer.
            from tidelog.plugins.client.producer.transactions import ProducerTransactions

            self.transactions = ProducerTransactions(
                engine, numbers, settings.transactional_id, settings.transaction_timeout_ms
            )
        self._engine = engine
        self._cluster = engine.session.cluster
        self._accumulator = accumulator
        self._numbers = numbers
        self._settings = settings
        self._retry = settings.retry
        self._acks = settings.required_acks
        self._codec = codec_of(settings.compression_type)
        codec = compression.codec_of(self._codec) if self._codec else None
        is_quick = codec is not None and codec.packs_quickly(settings.compression_level)
        self._in_thread_bytes = QUICKLY_COMPRESSED_IN_THREAD_BYTES if is_quick else COMPRESSED_IN_THREAD_BYTES
        self._linger_s = settings.linger_ms / 1000
        self._delivery_timeout_s = settings.delivery_timeout_ms / 1000
        self._most_in_flight = settings.max_in_flight_requests_per_connection
        self._finished = finished
        self._in_flight: defaultdict[int, int] = defaultdict(int)
        self._throttled: dict[int, float] = {}
        self._timer: EngineTimer | None = None
        self._is_id_requested = False
        self._id_at = 0.0
        self._id_failures = 0
        self._is_refreshing = False
        self._refresh_at = 0.0
        self._refresh_failures = 0
        self._metadata_age_timer: EngineTimer | None = None

    def pump(self) -> None:
        """Send all that can be sent now."""
        accumulator, now = self._accumulator, self._engine.clock()
        accumulator.needs_pump = False
        if self._engine.is_closed:
            return
        if accumulator.new_topics:
            topics, accumulator.new_topics = accumulator.new_topics, []
            for topic in topics:
                self._look_up(topic, now)
        due = math.inf
        while True:
            by_node, due = self._ready(now)
            if not by_node:
                break
            for node, queues in by_node.items():
                self._send(node, queues)
        self._set_timer(due)

    def fail_all(self, error: ClientError) -> None:
        """Fail everything that waits or is in flight."""
        accumulator = self._accumulator
        for topic in accumulator.topics.values():
            waiting = accumulator.fail_waiting(topic, error)
            if waiting is not None:
                self._finished(waiting)
        for queue in list(accumulator.active):
            batches = [*queue.in_flight, *queue.batches]
            queue.batches.clear()
            queue.open = None
            for batch in batches:
                if not batch.is_done:
                    self._fail(batch, error)

    def _ready(self, now: float) -> tuple[dict[int, list[PartitionQueue]], float]:
        """Return the queues whose first batch can be sent, by leader, and when others may be."""
        by_node: dict[int, list[PartitionQueue]] = {}
        sizes: defaultdict[int, int] = defaultdict(int)
        due = math.inf
        is_known = self._numbers.is_known
        for queue in tuple(self._accumulator.active):
            when = self._ready_at(queue, now)
            if when > now:
                due = min(due, when)
                continue
            due = min(due, self._deadline(queue))
            if not is_known:
                due = min(due, self._request_id(now))
                continue
            if self.transactions is not None:
                partition = queue.partition
                if not self.transactions.admits(partition, self._transaction_changed):
                    continue
            node = self._cluster.leader(queue.partition)
            if node is None:
                due = min(due, self._refresh(now))
            elif self._throttled.get(node, 0.0) > now:
                due = min(due, self._throttled[node])
            elif self._in_flight[node] < self._most_in_flight and self._is_encoded(queue):
                size = len(self._encoded(queue.batches[0]).records)
                if not sizes[node] or sizes[node] + size <= self._settings.max_request_size:
                    sizes[node] += size
                    by_node.setdefault(node, []).append(queue)
        return by_node, due

    def _ready_at(self, queue: PartitionQueue, now: float) -> float:
        """Return when the first batch of a partition may be sent, as far as that depends on the partition."""
        self._expire(queue, now)
        if queue.needs_epoch and not queue.in_flight and self.transactions is None:
            self._renew(queue)
        if not queue.batches:
            if not queue.in_flight:
                self._accumulator.active.pop(queue, None)
            return self._deadline(queue)
        if queue.is_encoding:
            return math.inf
        first, deadline = queue.batches[0], self._deadline(queue)
        if not self._keeps_order(queue, first):
            return deadline
        if queue.retry_at > now:
            return min(queue.retry_at, deadline)
        if first.is_closed or self.is_flushing or len(queue.batches) > 1:
            return now
        if len(first.records) >= self._settings.batch_num_messages:
            return now
        if queue.in_flight and self._acks:
            # Until the answer comes, more records may come for this batch: that is how batches grow with the
            # load though nothing lingers.
            return deadline
        return min(first.created + self._linger_s, deadline)

    def _deadline(self, queue: PartitionQueue) -> float:
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

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """Fail the batches of a partition whose time is up."""
        oldest = now - self._delivery_timeout_s
        for batch in queue.in_flight:
            # It stays in flight: what follows in the partition depends on its answer.
            if batch.created <= oldest and not batch.is_done:
                self._fail(batch, self._timed_out(batch, is_sent=True))
        while queue.batches and (queue.batches[0].created <= oldest or not queue.batches[0].records):
            if queue.is_encoding:
                return
            batch = queue.take_first()
            if not batch.records:
                # All were dropped from the full queue.
                self._finish(batch)
                continue
            self._numbers.failed(queue, batch)
            self._fail(batch, self._timed_out(batch, is_sent=batch.is_in_doubt))

    def _timed_out(self, batch: Batch, *, is_sent: bool) -> DeliveryTimedOut:
        where = str(batch.partition)
        return DeliveryTimedOut(where, self._delivery_timeout_s, batch.last_error, is_sent=is_sent)

    def _renew(self, queue: PartitionQueue) -> None:
        for batch, error in self._numbers.renew(queue):
            self._fail(batch, error)

    def _is_encoded(self, queue: PartitionQueue) -> bool:
        """Encode the first batch of a queue, unless it is; return False while a thread does it."""
        batch = queue.batches[0]
        if batch.encoded is not None:
            return True
        if batch is queue.open:
            queue.close_open()
        work = partial(encode, batch.records, self._codec, self._settings.compression_level)
        if self._codec and batch.size >= self._in_thread_bytes:
            queue.is_encoding = True
            self._engine.io.run_in_thread(
                work, lambda outcome: self._encoded_in_thread(queue, batch, outcome)
            )
            return False
        try:
            batch.encoded = work()
        except Exception as error:
            queue.batches.popleft()
            self._fail(batch, _unencodable(error))
            return False
        return True

    def _encoded_in_thread(
        self, queue: PartitionQueue, batch: Batch, outcome: EncodedBatch | Exception
    ) -> None:
        queue.is_encoding = False
        if batch.is_done:
            return
        if isinstance(outcome, Exception):
            queue.batches.remove(batch)
            self._fail(batch, _unencodable(outcome))
        else:
            batch.encoded = outcome
        self.pump()

    def _encoded(self, batch: Batch) -> EncodedBatch:
        if batch.encoded is None:
            raise AssertionError("a batch is encoded before it is sent")
        return batch.encoded

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
            self._produce(self._engine.session, node, sent),
            lambda outcome: self._answered(node, sent, outcome),
        )

    def _produce(self, session: Session, node: int, sent: Sent) -> Steps[ProduceResponse | None]:
        by_name = any(self._cluster.topic_id(batch.partition.topic) == NO_TOPIC_ID for _, batch in sent)
        answer: ProduceResponse | None = yield from send_request(
            session,
            ByVersion(PRODUCE, lambda version: self._request(sent, version)),
            node=node,
            at_most=self._newest_version(by_name=by_name),
        )
        return answer

    def _newest_version(self, *, by_name: bool) -> int | None:
        if self.transactions is not None:
            return LAST_VERSION_BEFORE_TRANSACTION_V2
        return LAST_VERSION_BY_NAME if by_name else None

    def _request(self, sent: Sent, version: int) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        level = self._settings.compression_level
        for queue, batch in sent:
            partition = batch.partition
            topic = topics.get(partition.topic)
            if topic is None:
                topic_id = self._cluster.topic_id(partition.topic).bytes
                topic = TopicProduceData(name=partition.topic, topic_id=topic_id, partition_data=[])
                topics[partition.topic] = topic
            stamp, encoded = self._numbers.stamp(queue, batch), self._encoded(batch)
            data = packed(
                encoded,
                stamp,
                batch.records,
                version=version,
                level=level,
                where=f"the leader of {partition}",
            )
            topic.partition_data.append(
                PartitionProduceData(index=partition.partition, records=memoryview(data))
            )
        return ProduceRequest(
            transactional_id=self._settings.transactional_id,
            acks=self._acks,
            timeout_ms=int(self._settings.request_timeout_ms),
            topic_data=list(topics.values()),
        )

    def _answered(self, node: int, sent: Sent, outcome: ProduceResponse | ClientError | None) -> None:
        self._in_flight[node] -= 1
        if isinstance(outcome, ClientError):
            for queue, batch in sent:
                self._complete(queue, batch, outcome, None)
        elif outcome is None:
            for queue, batch in sent:
                self._complete(queue, batch, None, None)
        else:
            self._answered_each(node, sent, outcome)
        self.pump()

    def _answered_each(self, node: int, sent: Sent, answer: ProduceResponse) -> None:
        if answer.throttle_time_ms:
            self._throttled[node] = self._engine.clock() + answer.throttle_time_ms / 1000
        names = {
            self._cluster.topic_id(batch.partition.topic).bytes: batch.partition.topic for _, batch in sent
        }
        parts: dict[tuple[str, int], PartitionProduceResponse] = {}
        for topic in answer.responses:
            name = topic.name or names.get(bytes(topic.topic_id), "")
            for part in topic.partition_responses:
                parts[name, part.index] = part
        brokers = {each.node_id: Address(each.host, each.port) for each in answer.node_endpoints}
        for queue, batch in sent:
            result = parts.get((batch.partition.topic, batch.partition.partition))
            if result is None:
                self._complete(queue, batch, ErrorResponse.missing(str(batch.partition)), None)
            elif not result.error_code:
                self._complete(queue, batch, None, result)
            else:
                code, where = ErrorCode.of(result.error_code), str(batch.partition)
                error = ErrorResponse(code, where, result.error_message)
                self._complete(queue, batch, error, result, brokers)

    def _complete(
        self,
        queue: PartitionQueue,
        batch: Batch,
        error: ClientError | None,
        part: PartitionProduceResponse | None,
        brokers: dict[int, Address] | None = None,
    ) -> None:
        """Apply the outcome of an attempt to its batch."""
        queue.in_flight.remove(batch)
        verdict = verdict_of(error)
        if error is not None and verdict is not ProduceVerdict.APPENDED:
            self._failed_attempt(queue, batch, error, part, brokers)
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

    def _failed_attempt(
        self,
        queue: PartitionQueue,
        batch: Batch,
        error: ClientError,
        part: PartitionProduceResponse | None,
        brokers: dict[int, Address] | None,
    ) -> None:
        verdict = verdict_of(error)
        batch.last_error = error
        is_new_leader = self._learn_leader(queue.partition, error, part, brokers)
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
                queue.retry_at = self._engine.clock() + self._retry.pause_s(queue.failures)
                queue.failures += 1
        else:
            self._numbers.failed(queue, batch)
            self._fail(batch, *_for_records(error, part))

    def _may_repeat(self, queue: PartitionQueue, batch: Batch, verdict: ProduceVerdict) -> bool:
        if verdict is ProduceVerdict.RETRY_IN_ORDER:
            return queue.needs_epoch or not self._numbers.is_lowest(queue, batch)
        if verdict is ProduceVerdict.NUMBER_AGAIN:
            return self._numbers.is_enabled and not self._numbers.is_transactional
        is_retry = verdict in (ProduceVerdict.RETRY, ProduceVerdict.RETRY_IN_DOUBT)
        return is_retry and batch.attempts <= self._settings.retries

    def _learn_leader(
        self,
        partition: TopicPartition,
        error: ClientError,
        part: PartitionProduceResponse | None,
        brokers: dict[int, Address] | None,
    ) -> bool:
        """Use what an error says about a partition's leader; return whether it names another one."""
        if isinstance(error, ErrorResponse) and not error.code.refreshes_metadata:
            return False
        if part is not None and part.current_leader.leader_id >= 0:
            leader = part.current_leader
            if self._cluster.lead(partition, leader.leader_id, leader.leader_epoch, brokers or {}):
                return True
        if not isinstance(error, ErrorResponse) and not error.retriable:
            return False
        self._cluster.forget_topic(partition.topic)
        return False

    def drop_queued(self, error: ClientError) -> None:
        """Fail what is not in flight, since the transaction is aborted."""
        accumulator = self._accumulator
        for topic in accumulator.topics.values():
            waiting = accumulator.fail_waiting(topic, error)
            if waiting is not None:
                self._finished(waiting)
        for queue in list(accumulator.active):
            while queue.batches:
                batch = queue.take_first()
                self._numbers.failed(queue, batch)
                self._fail(batch, error)

    def restart_numbers(self) -> None:
        """Begin every partition at 0, with the new epoch after an abort."""
        for topic in self._accumulator.topics.values():
            for queue in topic.queues:
                self._numbers.restart(queue)
        self.pump()

    def _transaction_changed(self, error: ClientError | None) -> None:
        if error is not None:
            self.drop_queued(error)
        self.pump()

    def _fail(self, batch: Batch, error: ClientError, record_errors: Any = None) -> None:
        if self.transactions is not None:
            error = self.transactions.failed(error)
        self._accumulator.release(batch)
        batch.fail(error, record_errors)
        self._report(batch)

    def _finish(self, batch: Batch) -> None:
        self._accumulator.release(batch)
        batch.finish()
        self._report(batch)

    def _report(self, batch: Batch) -> None:
        self._finished(batch)
        parent = batch.parent
        if parent is not None and all(part.is_done for _, part in parent.parts):
            parent.records = []
            parent.finish()
            self._report(parent)

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

    def _request_id(self, now: float) -> float:
        """Request a producer id; return when that may be done again."""
        if self._is_id_requested:
            return math.inf
        if self._id_at > now:
            return self._id_at
        self._is_id_requested = True
        timeout_s = self._engine.session.settings.operation_timeout_s
        self._engine.spawn(init_producer(self._engine.session), self._id_answered, timeout_s=timeout_s)
        return math.inf

    def _id_answered(self, outcome: IdempotentProducer | ClientError) -> None:
        self._is_id_requested = False
        if not isinstance(outcome, ClientError):
            self._id_failures = 0
            self._numbers.assign(outcome.producer_id, outcome.producer_epoch)
        elif outcome.retriable:
            self._id_at = self._engine.clock() + self._retry.pause_s(self._id_failures)
            self._id_failures += 1
        elif self._settings.wants_idempotence:
            self.fail_all(outcome)
        else:
            # Kafka before 0.11, or without the permission for it: retries may append twice.
            self._numbers.disable()
        self.pump()

    def _look_up(self, topic: TopicQueues, since: float, failures: int = 0) -> None:
        """Request the metadata of a topic, and have it created where brokers do that."""

        def done(outcome: ClusterMetadata | ClientError) -> None:
            error = outcome if isinstance(outcome, ClientError) else _error_of(topic.name, outcome)
            if error is None:
                self._follow(topic)
                self._watch_age()
            elif isinstance(outcome, ClientError) and outcome.retriable and self._has_time(since):
                when = self._engine.clock() + self._retry.pause_s(failures)
                self._engine.call_at(when, lambda: self._look_up(topic, since, failures + 1))
                return
            else:
                waiting = self._accumulator.fail_waiting(topic, error)
                if waiting is not None:
                    self._finished(waiting)
            self.pump()

        timeout_s = max(0.001, since + self._settings.max_block_ms / 1000 - self._engine.clock())
        self._engine.spawn(
            metadata(self._engine.session, [topic.name], create=True), done, timeout_s=timeout_s
        )

    def _has_time(self, since: float) -> bool:
        return self._engine.clock() - since < self._settings.max_block_ms / 1000

    def _refresh(self, now: float) -> float:
        """Request the metadata of all topics; return when that may be done again."""
        if self._is_refreshing:
            return math.inf
        if self._refresh_at > now:
            return self._refresh_at
        self._is_refreshing = True
        names = sorted(topic.name for topic in self._accumulator.topics.values() if topic.queues)
        self._engine.spawn(refresh(self._engine.session, names), self._refreshed, timeout_s=_MOST_METADATA_S)
        return math.inf

    def _refreshed(self, outcome: ClusterMetadata | ClientError) -> None:
        self._is_refreshing = False
        # Metadata without a leader is no better than none: both are asked for again after a pause.
        self._refresh_at = self._engine.clock() + self._retry.pause_s(self._refresh_failures)
        if isinstance(outcome, ClientError):
            self._refresh_failures += 1
        else:
            self._refresh_failures = 0
            self._follow_all()
        self.pump()

    def _follow_all(self) -> None:
        for topic in self._accumulator.topics.values():
            if topic.queues:
                self._follow(topic)

    def _follow(self, topic: TopicQueues) -> None:
        """Apply the cached metadata of a topic to its queues."""
        known = self._cluster.topic(topic.name)
        if known is not None and known.partitions:
            count = known.partitions[-1].index + 1
            led = [part.index for part in known.partitions if part.leader in self._cluster.brokers]
            self._accumulator.follow(topic, count, led)

    def _watch_age(self) -> None:
        """Request metadata again after `metadata_max_age_ms`, so that new partitions are found."""
        if self._metadata_age_timer is not None:
            return
        when = self._engine.clock() + self._settings.metadata_max_age_ms / 1000
        self._metadata_age_timer = self._engine.call_at(when, self._metadata_aged)

    def _metadata_aged(self) -> None:
        self._metadata_age_timer = None
        self._refresh(self._engine.clock())
        self._watch_age()


def _error_of(name: str, found: ClusterMetadata) -> ClientError | None:
    code = found.errors.get(name)
    return None if code is None else ErrorResponse(code, f"topic {name!r}")


def _unencodable(error: Exception) -> ClientError:
    failure = ClientError(f"a batch cannot be encoded: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure


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
