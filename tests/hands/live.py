"""Clients that live as long as a directory, whoever has it: a producer, and members of groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.deadlines import wait_until

STREAM = "stream"
STREAM_PARTITIONS = 3
PAUSE_S = 0.02
POLL_S = 0.1
COMMIT_S = 30
"""How long a commit under way may take before it is abandoned."""
SESSION_MS = 300_000
OUT_OF_THE_GROUP = frozenset(
    {
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""Errors of a commit that do not pass before the member reads on."""
QUIET = {"log_level": 0}


@attrs.define
class LiveProducer:
    """Writes numbers to every partition of the stream, each once, unless it is held."""

    bootstrap: str
    sent: int = 0
    failures: list[str] = attrs.field(factory=list[str])
    _acknowledged: int = 0
    _stop: threading.Event = attrs.field(factory=threading.Event)
    _going: threading.Event = attrs.field(factory=threading.Event)
    _resting: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, held."""
        self._thread = threading.Thread(target=self._run, name="live producer", daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        """Write."""
        self._resting.clear()
        self._going.set()

    def hold(self) -> None:
        """Write no more; returns when everything is acknowledged."""
        self._going.clear()
        wait_until(lambda: self._resting.is_set() or bool(self.failures), "acknowledgement of what was sent")
        assert not self.failures, self.failures

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._going.set()
        if self._thread is not None:
            self._thread.join()

    def expected(self) -> list[bytes]:
        """What every partition of the stream holds while held."""
        return [b"%d" % number for number in range(self.sent)]

    def _run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 2,
                **QUIET,
            }
        )
        while not self._stop.is_set():
            if not self._going.is_set():
                if producer.flush(POLL_S) == 0:
                    self._resting.set()
                    self._going.wait(POLL_S)
                continue
            for partition in range(STREAM_PARTITIONS):
                producer.produce(STREAM, b"%d" % self.sent, partition=partition, on_delivery=self._delivered)
            self.sent += 1
            producer.poll(PAUSE_S)
        producer.purge()
        producer.flush(1.0)

    def _delivered(self, error: object, _: Message) -> None:
        if error is not None and not self._stop.is_set():
            self.failures.append(str(error))
        self._acknowledged += 1


@attrs.define
class LiveConsumer:
    """The one member of a group; reads the stream and commits what it has read before it reads on."""

    bootstrap: str
    group: str
    protocol: str
    failures: list[str] = attrs.field(factory=list[str])
    read: dict[int, set[int]] = attrs.field(
        factory=lambda: {partition: set[int]() for partition in range(STREAM_PARTITIONS)}
    )
    committed: dict[int, int] = attrs.field(factory=dict[int, int])
    _stop: threading.Event = attrs.field(factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to read."""
        name = f"{self.protocol} member of {self.group}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, without leaving the group in order if nobody answers.

        A commit that waits for a broker which is gone never returns (librdkafka), and is abandoned.
        """
        self._stop.set()
        if self._thread is not None:
            self._thread.join(COMMIT_S)

    def wait_read(self, records: int) -> None:
        """Wait until all records of the stream were read and committed."""

        def done() -> bool:
            return bool(self.failures) or all(
                self.committed.get(partition, 0) >= records for partition in range(STREAM_PARTITIONS)
            )

        wait_until(done, f"{records} records read by the {self.protocol} member of {self.group!r}")
        assert not self.failures, (self.group, self.failures)
        assert all(len(numbers) == records for numbers in self.read.values()), self.group

    def _run(self) -> None:
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "group.protocol": self.protocol,
            "client.id": f"{self.protocol}-member",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            # A broker may take long to start; members are to be the same then.
            **({"session.timeout.ms": SESSION_MS} if self.protocol == "classic" else {}),
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
            **QUIET,
        }
        consumer = Consumer(settings)
        consumer.subscribe([STREAM])
        try:
            while not self._stop.is_set():
                self._take(consumer, consumer.consume(500, POLL_S))
        except Exception as error:
            self.failures.append(repr(error))
        finally:
            # Nothing is told to a broker that may be gone.
            threading.Thread(target=consumer.close, daemon=True).start()

    def _take(self, consumer: Consumer, messages: list[Message]) -> None:
        good = [message for message in messages if message.error() is None]
        for message in good:
            partition, offset = message.partition() or 0, message.offset() or 0
            if offset < self.committed.get(partition, 0):
                self.failures.append(f"{STREAM}-{partition} again at {offset}, behind what was committed")
            self.read[partition].add(int(message.value() or b"-1"))
        if good:
            last = {message.partition() or 0: (message.offset() or 0) + 1 for message in good}
            self._commit(consumer, last)

    def _commit(self, consumer: Consumer, ends: dict[int, int]) -> None:
        places = [TopicPartition(STREAM, partition, offset) for partition, offset in ends.items()]
        while not self._stop.is_set():
            try:
                consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as exception:
                if exception.args[0].code() in OUT_OF_THE_GROUP:
                    # It joins again when it reads on, from what is committed.
                    return
                time.sleep(POLL_S)
            else:
                self.committed.update(ends)
                return


def each(clients: list[LiveConsumer], action: Callable[[LiveConsumer], None]) -> None:
    """Do it with every client at the same time.

    Raises:
        AssertionError: it failed with a client; the first error of several.
    """
    errors: list[AssertionError] = []

    def act(client: LiveConsumer) -> None:
        try:
            action(client)
        except AssertionError as error:
            errors.append(error)

    threads = [threading.Thread(target=act, args=(client,), daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
