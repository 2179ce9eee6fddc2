"""Apache Kafka as a process, which is what a container runs; `tests/peers` starts it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.peers import KafkaServer, find_kafka

from .kit import PATIENCE_S, Kit


class KafkaKit(Kit):
    """One server for all tests, each of which has topics of its own."""

    title = "Apache Kafka 4.4.0"
    is_shared = True

    def start(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        settings = {
            "group.min.session.timeout.ms": "6000",
            "log.retention.check.interval.ms": "100",
            "log.initial.task.delay.ms": "100",
            "log.cleaner.backoff.ms": "100",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        }
        self._server = KafkaServer(find_kafka(), Path(self._directory.name), settings)
        self._server.start()
        self.bootstrap = self._server.bootstrap

    def stop(self) -> None:
        self._server.stop()
        self._directory.cleanup()

    def crash(self) -> None:
        self._server.kill()
        self._server.start()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def expire(self, topic: str) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        change = ConfigEntry("segment.ms", "100", incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(change)
        (done,) = self.admin().incremental_alter_configs([resource]).values()
        done.result(PATIENCE_S)

    def compact(self, topic: str) -> None:
        # The active segment is not compacted: another record has to come once it is old enough.
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "compaction"})
        try:
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                time.sleep(0.2)
                self.produce(topic, b"later", key=b"other")
                consumer.assign([TopicPartition(topic, 0, 0)])
                message = consumer.poll(1)
                if message is not None and message.offset() != 0:
                    return
        finally:
            consumer.close()
        raise TimeoutError(f"{topic} was not compacted within {PATIENCE_S:g} s")
