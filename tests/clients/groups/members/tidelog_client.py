"""A member with tidelog's own client."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tests.clients.groups.members.conversation import COMMIT, LEAVE, Arguments, Conversation
from tidelog.client import Consumer, RebalanceListener

if TYPE_CHECKING:
    from collections.abc import Collection

    from tidelog.client import TopicPartition

POLL_S = 0.1


class _Telling(RebalanceListener):
    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self._conversation.gained(each.partition for each in partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._conversation.gave_up(each.partition for each in partitions)


def main() -> None:
    """Be a member until told to leave."""
    arguments, conversation = Arguments.parse(sys.argv[1:]), Conversation()
    settings: dict[str, Any] = {
        key.replace(".", "_"): int(value) if value.isdecimal() else value
        for key, value in arguments.settings.items()
    }
    with Consumer(
        arguments.bootstrap, group_id=arguments.group, auto_offset_reset="earliest", **settings
    ) as consumer:
        consumer.subscribe([arguments.topic], listener=_Telling(conversation))
        conversation.listen()
        while (command := conversation.command()) != LEAVE:
            if command == COMMIT:
                consumer.commit()
                conversation.committed()
            for record in consumer.poll(POLL_S):
                conversation.read(record.partition, record.offset)


if __name__ == "__main__":
    main()
