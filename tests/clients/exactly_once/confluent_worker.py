"""A worker with confluent-kafka: what it reads goes to the output with the offset up to which it was read.

Arguments: bootstrap servers, input topic, output topic, group, transactional id. It ends with its input.
"""

from __future__ import annotations

import sys
import threading

import attrs
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SESSION_TIMEOUT_MS = 1500
TRANSACTION_TIMEOUT_MS = 10_000
PATIENCE_S = 180.0
POLL_S = 0.05
AT_ONCE = 20


@attrs.define
class Worker:
    """A consumer and a producer that belong together."""

    consumer: Consumer
    producer: Producer
    input: str
    output: str
    _read: list[Message] = attrs.field(factory=list[Message], init=False)
    _done: dict[int, int] = attrs.field(factory=dict[int, int], init=False)
    _group: object = attrs.field(default=None, init=False)

    def start(self) -> None:
        """Fence whoever had this transactional id before, and join the group."""
        self.producer.init_transactions(PATIENCE_S)
        self.consumer.subscribe(
            [self.input], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def _on_assign(self, _: Consumer, __: list[TopicPartition]) -> None:
        # Not when offsets are sent: a member whose session has ended is nobody then, and offsets of nobody
        # are taken, while another member reads the same partitions again.
        self._group = self.consumer.consumer_group_metadata()

    def _on_revoke(self, _: Consumer, __: list[TopicPartition]) -> None:
        # What was read of them starts again at what is committed, wherever they go, and not before that.
        self._read.clear()

    def step(self) -> None:
        """One transaction, if there is something to do."""
        messages = self._gather()
        if not messages:
            return
        try:
            self._transact(messages)
        except KafkaException as error:
            if error.args[0].fatal():
                raise
            self.producer.abort_transaction(PATIENCE_S)
            self._rewind()

    def _gather(self) -> list[Message]:
        """What can be read now, of partitions that are still ours."""
        self._read.clear()
        while len(self._read) < AT_ONCE and (message := self.consumer.poll(POLL_S)) is not None:
            # librdkafka may hand over again what was read before a partition came and went and came back.
            if message.error() is None and (message.offset() or 0) >= self._done.get(_partition(message), 0):
                self._read.append(message)
        return list(self._read)

    def _transact(self, messages: list[Message]) -> None:
        self.producer.begin_transaction()
        for message in messages:
            self.producer.produce(self.output, message.value(), partition=_partition(message))
        positions = {_partition(message): (message.offset() or 0) + 1 for message in messages}
        offsets = [TopicPartition(self.input, partition, offset) for partition, offset in positions.items()]
        self.producer.send_offsets_to_transaction(offsets, self._group, PATIENCE_S)
        self.producer.commit_transaction(PATIENCE_S)
        self._done |= positions

    def _rewind(self) -> None:
        """Back to what is committed, where the next transaction has to begin."""
        for partition in self.consumer.committed(self.consumer.assignment(), PATIENCE_S):
            partition.offset = max(partition.offset, 0)
            self.consumer.seek(partition)


def _partition(message: Message) -> int:
    partition = message.partition()
    assert partition is not None
    return partition


def main() -> None:
    """Work until the input ends."""
    bootstrap, source, target, group, transactional_id = sys.argv[1:]
    # librdkafka 2.16 starts from its bootstrap servers again when all brokers are gone, and may then wait
    # without end for a coordinator that it has given up.
    recovery = {"metadata.recovery.strategy": "none"}
    backoff = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 300, **recovery}
    consumer = Consumer(
        {
            **backoff,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": SESSION_TIMEOUT_MS // 5,
        }
    )
    producer = Producer(
        {**backoff, "transactional.id": transactional_id, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS}
    )
    ended = threading.Thread(target=sys.stdin.read, daemon=True)
    ended.start()
    worker = Worker(consumer, producer, source, target)
    worker.start()
    while ended.is_alive():
        worker.step()
    consumer.close()


if __name__ == "__main__":
    main()
