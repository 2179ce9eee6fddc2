"""Topics of a run: made for it, removed after it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

_TIMEOUT_S = 30.0
_RETRY_PAUSE_S = 0.1
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_LED_SOON = frozenset(
    (
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._NOENT,
    )
)
"""What a client is told, or finds out, of a partition of a new topic."""
_numbers = count(1)


def admin_client(bootstrap: str) -> AdminClient:
    """An administrative client that keeps quiet when the broker is stopped."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2, "log.connection.close": False})


def create_topics(
    admin: AdminClient, partitions: Mapping[str, int], config: Mapping[str, str] | None = None
) -> None:
    """Create topics, by name their number of partitions, and return when all are there.

    A node that has just started may know no broker that can hold a partition: that passes, and is waited for.
    Raises KafkaException when it does not pass within 30 s, or for any other refusal.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    wanted = dict(partitions)
    while wanted:
        futures = admin.create_topics(
            [NewTopic(name, number, 1, config=dict(config or {})) for name, number in wanted.items()]
        )
        for name, future in futures.items():
            try:
                future.result()
                del wanted[name]
            except KafkaException as error:
                starting = error.args[0].code() == KafkaError.INVALID_REPLICATION_FACTOR
                if not starting or time.monotonic() > deadline:
                    raise
        if wanted:
            time.sleep(_RETRY_PAUSE_S)
    _wait_for_leaders(admin, partitions, deadline)


def _wait_for_leaders(admin: AdminClient, partitions: Mapping[str, int], deadline: float) -> None:
    """Wait until each partition is led: Apache Kafka says that a topic is there a moment earlier."""
    waiting = [TopicPartition(name, index) for name, count in partitions.items() for index in range(count)]
    while waiting:
        ends: dict[TopicPartition, OffsetSpec] = dict.fromkeys(waiting, _LATEST)
        asked = admin.list_offsets(ends, request_timeout=_TIMEOUT_S)
        waiting = []
        for partition, future in asked.items():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() not in _LED_SOON or time.monotonic() > deadline:
                    raise
                waiting.append(partition)
        if waiting:
            time.sleep(_RETRY_PAUSE_S)


def delete_topic(admin: AdminClient, name: str) -> None:
    """Delete a topic and all of its data. Raises KafkaException when the broker refuses."""
    admin.delete_topics([name])[name].result()


@contextmanager
def topic_for_a_run(
    admin: AdminClient, partitions: int = 1, config: Mapping[str, str] | None = None
) -> Generator[str]:
    """The name of a fresh topic, deleted at the end."""
    name = f"run-{next(_numbers)}"
    create_topics(admin, {name: partitions}, config)
    yield name
    delete_topic(admin, name)
