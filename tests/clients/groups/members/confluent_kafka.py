"""A member with confluent-kafka."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.clients.groups.members.conversation import COMMIT, LEAVE, Arguments, Conversation

POLL_S = 0.1


def main() -> None:
    """Be a member until told to leave."""
    arguments, conversation = Arguments.parse(sys.argv[1:]), Conversation()
    consumer = Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": arguments.group,
            "auto.offset.reset": "earliest",
            # Shown when a test fails: why a partition was read again cannot be seen otherwise.
            "debug": "consumer,cgrp,topic",
            **arguments.settings,
        }
    )

    def assigned(_: Consumer, partitions: list[TopicPartition]) -> None:
        conversation.gained(each.partition for each in partitions)

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        conversation.gave_up(each.partition for each in partitions)

    consumer.subscribe([arguments.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    conversation.listen()
    while (command := conversation.command()) != LEAVE:
        if command == COMMIT:
            _commit(consumer)
            conversation.committed()
        message = consumer.poll(POLL_S)
        if message is not None:
            _tell_read(conversation, message)
    consumer.close()


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # The automatic commit was faster.
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise


def _tell_read(conversation: Conversation, message: Message) -> None:
    error, partition, offset = message.error(), message.partition(), message.offset()
    if error is None and partition is not None and offset is not None:
        conversation.read(partition, offset)
    elif error is not None:
        print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
