"""What is changed under the clients: topics, configuration, the directories of partitions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from tidelog.plugins.client import (
    BlockingClient,
    ClientSettings,
    ConfigChange,
    NewRecord,
    NewTopic,
    RetryPolicy,
    TopicPartition,
    or_raise,
)
from tidelog.plugins.client.operations.sending import send_request
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from tidelog.plugins.client.steps import Session, Steps

    from .broker import SoakBroker

SPARE_TOPICS: Final = 5
_DELETED_SHARE: Final = 0.7
_TIMEOUT_S: Final = 10.0
SEGMENT_SIZES: Final = (1 << 20, 2 << 20, 4 << 20)
_SETTINGS: Final = ClientSettings(
    request_timeout_s=_TIMEOUT_S, operation_timeout_s=_TIMEOUT_S, retry=RetryPolicy(retries=20, backoff_s=0.1)
)


class Changes:
    """Changes to make, each named after what it does; all end within ten seconds or with a ClientError."""

    def __init__(
        self,
        broker: SoakBroker,
        topics: Sequence[tuple[str, int]],
        cleaned: Sequence[tuple[str, int]],
        choose: random.Random,
    ) -> None:
        """`topics`: name and number of partitions of those whose records must all survive.

        `cleaned`: of those that are compacted or trimmed, which keep their configuration.
        """
        self._broker = broker
        self._topics = topics
        self._cleaned = cleaned
        self._choose = choose

    def churn_topic(self) -> str:
        """Create a topic, write, add partitions, delete records, and delete it, all by one client."""
        name = f"spare-{self._choose.randrange(SPARE_TOPICS)}"
        with self._client() as client:
            client.create_topics([NewTopic(name, 2)])
            client.produce(TopicPartition(name, 0), [NewRecord(b"x" * 100, key=b"k")] * 10)
            client.create_partitions({name: 3})
            client.produce(TopicPartition(name, 2), [NewRecord(b"y")])
            self._delete_records(name)
            if self._choose.random() < _DELETED_SHARE:
                client.delete_topics([name])
        return f"churn {name}"

    def configure_topic(self) -> str:
        """Set the segment size of a topic that is written to."""
        name, _ = self._choose.choice(self._topics)
        size = str(self._choose.choice(SEGMENT_SIZES))
        with self._client() as client:
            or_raise(client.alter_configs({name: [ConfigChange("segment.bytes", size)]}))
        return f"set segment.bytes={size} of {name}"

    def move(self) -> str:
        """Move a partition that is written to into another directory."""
        return self._move(self._choose.choice(self._topics))

    def move_cleaned(self) -> str:
        """Move a partition that is compacted or trimmed, perhaps at this moment."""
        return self._move(self._choose.choice(self._cleaned))

    def _move(self, topic: tuple[str, int]) -> str:
        name, partitions = topic
        partition = self._choose.randrange(partitions)
        directory = str(self._choose.choice(self._broker.directories))
        with self._client() as client:
            client.run(_move, TopicPartition(name, partition), directory)
        return f"move {name}-{partition} to {directory}"

    def _delete_records(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap})
        (deleted,) = admin.delete_records([ConfluentPartition(topic, 0, 5)]).values()
        with contextlib.suppress(KafkaException):  # the broker is away, or was while the topic was written
            deleted.result(_TIMEOUT_S)

    def _client(self) -> BlockingClient:
        return BlockingClient(self._broker.bootstrap, settings=_SETTINGS)


def _move(session: Session, partition: TopicPartition, directory: str) -> Steps[None]:
    topic = AlterReplicaLogDirTopic(name=partition.topic, partitions=[partition.partition])
    yield from send_request(
        session, AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=directory, topics=[topic])])
    )
