"""Workers between two topics, and everything that happens to them."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import attrs
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

PARTITIONS = 4
WORKERS = 2
AT_ONCE = 60
CALM_S = (0.2, 1.2)
HANGS_S = 2.5


class RestartableBroker(Protocol):
    """A broker that keeps its address when it is started again."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


@attrs.define
class Pipeline:
    """`command` gives a worker's command line with these arguments; `name` is that of the input topic."""

    broker: RestartableBroker
    command: Callable[[Sequence[str]], Sequence[str]]
    folder: Path
    name: str = "orders"
    produced: list[bytes] = attrs.field(factory=list[bytes])
    kills: int = 0
    _workers: list[subprocess.Popen[bytes]] = attrs.field(factory=list[subprocess.Popen[bytes]])
    _producer: Producer = attrs.field(init=False)

    def __enter__(self) -> Pipeline:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        topics = [NewTopic(topic, PARTITIONS, 1) for topic in (self.name, self.output_topic)]
        for created in admin.create_topics(topics).values():
            created.result(DEADLINE_S)
        self._producer = Producer(
            {"bootstrap.servers": self.broker.bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._workers = [self._start(number) for number in range(WORKERS)]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            _kill(worker)

    @property
    def output_topic(self) -> str:
        """Where the workers write."""
        return f"{self.name}-done"

    @property
    def group(self) -> str:
        """The workers' group."""
        return f"workers-of-{self.name}"

    def suffer(self, seconds: float, chance: random.Random) -> None:
        """Produce inputs for a while, and do harm in every way, again and again."""
        deadline = time.monotonic() + seconds
        harms: list[Callable[[int], None]] = [self.kill_worker, self.hang_worker, self.kill_broker]
        while time.monotonic() < deadline:
            chance.shuffle(harms)
            for harm in harms:
                self.produce()
                time.sleep(chance.uniform(*CALM_S))
                harm(chance.randrange(WORKERS))
                self.replace_ended()

    def kill_broker(self, _: int = 0) -> None:
        """`kill -9` the broker, and start it again."""
        self.kills += 1
        self.broker.kill()
        self.broker.start()

    def kill_worker(self, number: int) -> None:
        """`kill -9` a worker, and start another one with its transactional id."""
        self.kills += 1
        _kill(self._workers[number])
        self._workers[number] = self._start(number)

    def hang_worker(self, number: int) -> None:
        """Stop a worker for longer than its session lasts; the others have its partitions when it goes on."""
        self._workers[number].send_signal(signal.SIGSTOP)
        time.sleep(HANGS_S)
        self.produce()
        self._workers[number].send_signal(signal.SIGCONT)

    def finish(self) -> None:
        """Wait until every input is done, and have the workers end."""
        self.produce()
        deadline = time.monotonic() + DEADLINE_S
        while sum(self._committed()) < len(self.produced):
            self.replace_ended()
            assert time.monotonic() < deadline, f"{self._committed()} of {len(self.produced)} are done"
            time.sleep(0.1)
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.close()
            worker.wait(DEADLINE_S)

    def output(self) -> list[bytes]:
        """All committed values of the output."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "auditor",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign(
            [TopicPartition(self.output_topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)]
        )
        values, ended = list[bytes](), set[int | None]()
        while len(ended) < PARTITIONS:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"only {len(values)} records of the output can be read"
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error  # its public name
                ended.add(message.partition())
        consumer.close()
        return values

    def produce(self) -> None:
        """Produce some inputs, acknowledged."""
        for _ in range(AT_ONCE):
            value = b"%d" % len(self.produced)
            self._producer.produce(self.name, value, partition=len(self.produced) % PARTITIONS)
            self.produced.append(value)
        assert self._producer.flush(DEADLINE_S) == 0

    def _committed(self) -> list[int]:
        """How far the group has come in each partition of the input."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        asked = [TopicPartition(self.name, index) for index in range(PARTITIONS)]
        told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group, asked)])[
            self.group
        ]
        try:
            return [max(each.offset, 0) for each in told.result(DEADLINE_S).topic_partitions or []]
        except KafkaException as error:
            # A broker that has just come back may still be reading what it knew.
            if error.args[0].retriable():
                return []
            raise

    def replace_ended(self) -> None:
        """A worker gives up when it was fenced or lost its broker for long: somebody starts it again."""
        for number, worker in enumerate(self._workers):
            if worker.poll() is not None:
                _kill(worker)
                self._workers[number] = self._start(number)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        words = [
            self.broker.bootstrap,
            self.name,
            self.output_topic,
            self.group,
            f"{self.name}-{number}",
        ]
        with (self.folder / f"{self.name}-{number}.log").open("ab") as log:
            return subprocess.Popen(self.command(words), stdin=subprocess.PIPE, stderr=log)


def _kill(worker: subprocess.Popen[bytes]) -> None:
    worker.kill()
    worker.wait()
    if worker.stdin is not None:
        worker.stdin.close()
