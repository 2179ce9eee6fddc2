"""A member with aiokafka."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener

from tests.clients.groups.members.conversation import COMMIT, LEAVE, Arguments, Conversation

if TYPE_CHECKING:
    from collections.abc import Iterable

POLL_MS = 100


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the package has no types
    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation

    # aiokafka takes coroutines and plain functions alike, and declares the latter.
    async def on_partitions_assigned(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assigned: Iterable[Any]
    ) -> None:
        self._conversation.gained(each.partition for each in assigned)

    async def on_partitions_revoked(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, revoked: Iterable[Any]
    ) -> None:
        self._conversation.gave_up(each.partition for each in revoked)


async def main() -> None:
    """Be a member until told to leave."""
    arguments, conversation = Arguments.parse(sys.argv[1:]), Conversation()
    settings: dict[str, Any] = {
        key.replace(".", "_"): int(value) if value.isdecimal() else value
        for key, value in arguments.settings.items()
    }
    consumer = AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        auto_offset_reset="earliest",
        **settings,
    )
    consumer.subscribe([arguments.topic], listener=_Listener(conversation))
    await consumer.start()
    conversation.listen()
    while (command := conversation.command()) != LEAVE:
        if command == COMMIT:
            await consumer.commit()
            conversation.committed()
        for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
            for record in records:
                conversation.read(partition.partition, record.offset)
    # It reads no more from here on, and aiokafka leaves the group without calling the listener.
    conversation.gave_up(each.partition for each in consumer.assignment())
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main())
