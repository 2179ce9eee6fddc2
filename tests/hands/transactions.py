"""Producers of transactions that live as long as a directory, and what they have committed."""

from __future__ import annotations

import random
import threading
import time

import attrs
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.deadlines import DEADLINE_S, repeat_while_refused

PAYMENTS = "payments"
PAYMENTS_PARTITIONS = 2
PAUSE_S = 0.2
QUIET = {"log_level": 0}


@attrs.define
class LiveTransactions:
    """One transactional id; each transaction has a record in every partition and an offset of a group."""

    bootstrap: str
    name: str
    group: str
    place: int
    committed: list[bytes] = attrs.field(factory=list[bytes])
    offset: int = -1
    _open: bytes | None = None
    _begun: int = 0
    _producer: Producer = attrs.field(init=False)
    _ending: threading.Thread | None = None
    _failure: BaseException | None = None

    def start(self) -> None:
        """Make the transactional id known, or take it over from the producer that had it.

        librdkafka never sends the offsets of a transaction once its broker was away, so that a producer lives
        from one transaction, that it may leave open, to the end of that one under the other broker.
        """
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 600_000,
                "reconnect.backoff.max.ms": 500,
                **QUIET,
            }
        )
        self._repeat(lambda: self._producer.init_transactions(DEADLINE_S))

    def begin(self) -> None:
        """Open a transaction, with everything in it acknowledged."""
        self._begun += 1
        self._open = f"{self.name} {self._begun}".encode()
        self._producer.begin_transaction()
        for partition in range(PAYMENTS_PARTITIONS):
            self._producer.produce(PAYMENTS, self._open, partition=partition)
        self._repeat(self._send_offsets)
        assert self._producer.flush(DEADLINE_S) == 0

    def end(self, *, commit: bool) -> None:
        """End the open transaction."""
        action = self._producer.commit_transaction if commit else self._producer.abort_transaction
        self._repeat(lambda: action(DEADLINE_S))
        if commit and self._open is not None:
            self.committed.append(self._open)
            self.offset = self._begun
            repeat_while_refused(self._wait_stable, KafkaException)
        self._open = None

    def begin_to_commit(self) -> None:
        """Begin to commit the open transaction; `finish` waits for that."""
        self._ending = threading.Thread(target=self._commit, name=f"commit of {self.name!r}", daemon=True)
        self._ending.start()

    def finish(self, chance: random.Random) -> None:
        """Have no transaction open: end one, either way, or wait for a commit that was begun."""
        if self._ending is not None:
            self._ending.join()
            self._ending = None
            if self._failure is not None:
                raise self._failure
        elif self._open is not None:
            self.end(commit=chance.random() < 0.5)

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, or being committed."""
        return self._open is not None

    def _commit(self) -> None:
        try:
            self.end(commit=True)
        except BaseException as error:
            self._failure = error

    def _send_offsets(self) -> None:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **QUIET})
        try:
            place = TopicPartition(PAYMENTS, self.place, self._begun)
            metadata = consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction([place], metadata, DEADLINE_S)
        finally:
            consumer.close()

    def _wait_stable(self) -> None:
        """Wait for the group's offset: a commit is answered before the markers are written."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, **QUIET})
        try:
            # Readers of committed data ask for stable offsets.
            consumer.committed([TopicPartition(PAYMENTS, self.place)], DEADLINE_S)
        finally:
            consumer.close()

    def _repeat(self, action: object) -> None:
        """Do again what may be done again, as applications have to."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                action()  # type: ignore[operator]
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)
            else:
                return
