"""Transactions of the producer over each driver, against tidelog and Apache Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.plugins.client.producer.test_real_producers import new_topic, run
from tests.plugins.client.producer.three_drivers import Body
from tidelog.client import GroupMetadata
from tidelog.plugins.client import BlockingClient, FetchLimits, TopicPartition, or_raise
from tidelog.plugins.client.errors import (
    ErrorResponse,
    FencedProducer,
    IllegalTransactionState,
    TransactionAborted,
)

__all__ = ["run"]


def committed(bootstrap: str, topic: str, partition: int = 0) -> list[bytes | None]:
    """The values that consumers with `read_committed` get."""
    place = TopicPartition(topic, partition)
    with BlockingClient(bootstrap) as client:
        end = or_raise(client.list_offsets([place]))[place].offset
        found = client.read(place, 0, end, FetchLimits(read_committed=True)) if end else ()
        return [record.value for record in found]


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4()}"


def test_a_transaction_is_committed_at_the_end_and_aborted_on_an_error(
    run: Callable[[Body], None], real_broker: str
) -> None:
    topic = new_topic(real_broker, 2)
    group = unique("group")

    async def body(producer: Any) -> None:
        async with producer(real_broker, transactional_id=unique("id"), linger_ms=5) as sending:
            await sending.begin_transaction()
            for number in range(4):
                await sending.send(topic, b"%d" % number, partition=number % 2)
            await sending.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, GroupMetadata(group))
            await sending.commit_transaction()

            await sending.begin_transaction()
            lost = await sending.send(topic, b"lost", partition=0)
            await sending.flush()
            unsent = await sending.send(topic, b"unsent", partition=1)
            await sending.abort_transaction()
            assert lost.exception() is None
            assert isinstance(unsent.exception(), TransactionAborted)

            await sending.begin_transaction()
            for partition in range(2):
                await sending.send(topic, b"after", partition=partition)
            await sending.commit_transaction()

    run(body)
    assert committed(real_broker, topic, 0) == [b"0", b"2", b"after"]
    assert committed(real_broker, topic, 1) == [b"1", b"3", b"after"]
    with BlockingClient(real_broker) as client:
        found = client.committed_offsets(group, [TopicPartition(topic, 0)])
        assert or_raise(found)[TopicPartition(topic, 0)].offset == 7


def test_rules_of_transactions(run: Callable[[Body], None], shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog, config={"max.message.bytes": "1000"})
    name = unique("id")

    async def body(producer: Any) -> None:
        async with producer(shared_tidelog) as plain:
            with pytest.raises(IllegalTransactionState, match="no transactional_id"):
                await plain.begin_transaction()
        async with (
            producer(shared_tidelog, transactional_id=name) as first,
            producer(shared_tidelog, transactional_id=name) as second,
        ):
            with pytest.raises(IllegalTransactionState, match="init_transactions"):
                await first.send(topic, b"x")
            await first.init_transactions()
            with pytest.raises(IllegalTransactionState, match="no transaction is open"):
                await first.send(topic, b"x")
            await first.begin_transaction()
            with pytest.raises(ErrorResponse, match="MESSAGE_TOO_LARGE"):
                await first.send_and_wait(topic, bytes(2000))
            with pytest.raises(IllegalTransactionState, match="can only be aborted"):
                await first.commit_transaction()
            with pytest.raises(IllegalTransactionState, match="can only be aborted"):
                await first.send(topic, b"x")
            await first.abort_transaction()
            await first.begin_transaction()
            await first.send_and_wait(topic, b"open")
            await second.begin_transaction()
            await second.send_and_wait(topic, b"second")
            with pytest.raises(FencedProducer):
                await first.send_and_wait(topic, b"fenced")
            with pytest.raises(FencedProducer):
                await first.commit_transaction()
            await second.commit_transaction()

    run(body)
    assert committed(shared_tidelog, topic) == [b"second"]
