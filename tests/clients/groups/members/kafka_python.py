"""A member with kafka-python."""

from __future__ import annotations

import sys
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaConnectionError
from kafka.structs import TopicPartition

from tests.clients.groups.members.conversation import COMMIT, LEAVE, Arguments, Conversation

# A poll that ends while it waits for its assignment leaves the client waiting for good.
POLL_MS = 1000
COOPERATIVE = "cooperative-sticky"


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the package has no types
    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._conversation.gained(each.partition for each in assigned)

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._conversation.gave_up(each.partition for each in revoked)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._conversation.gave_up(each.partition for each in lost)


def main() -> None:
    """Be a member until told to leave."""
    arguments, conversation = Arguments.parse(sys.argv[1:]), Conversation()
    consumer = KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        **_settings(arguments),
    )
    consumer.subscribe([arguments.topic], listener=_Listener(conversation))
    conversation.listen()
    while (command := conversation.command()) != LEAVE:
        if command == COMMIT:
            consumer.commit()
            conversation.committed()
        for partition, offset in _read(consumer):
            conversation.read(partition, offset)
    consumer.close()


def _read(consumer: KafkaConsumer) -> list[tuple[int, int]]:
    try:
        polled = consumer.poll(POLL_MS)
    except KafkaConnectionError:
        # The broker is away; whoever polls again gets on once it is back.
        return []
    return [(record.partition, record.offset) for records in polled.values() for record in records]


def _settings(arguments: Arguments) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in arguments.settings.items():
        settings[key.replace(".", "_")] = int(value) if value.isdecimal() else value
    if settings.get("partition_assignment_strategy") == COOPERATIVE:
        settings["partition_assignment_strategy"] = [CooperativeStickyAssignor]
    return settings


if __name__ == "__main__":
    main()
