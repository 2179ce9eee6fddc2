"""`with producer.transaction()`, which is the same for blocking and for async code."""

from __future__ import annotations

import pytest

from tests.plugins.client.producer.test_producer_transactions import committed, unique
from tests.plugins.client.producer.test_real_producers import new_topic
from tidelog.client import AsyncProducer, Producer, TopicPartition
from tidelog.plugins.client.errors import ErrorResponse


def _fail(producer: Producer, topic: str) -> None:
    with producer.transaction() as transaction:
        transaction.send(topic, b"2").result()
        raise ZeroDivisionError


def _send_too_much(producer: Producer, topic: str) -> None:
    with producer.transaction() as transaction:
        transaction.send(topic, b"3")
        transaction.send(topic, bytes(2000))


async def _fail_async(producer: AsyncProducer, topic: str) -> None:
    async with producer.transaction() as transaction:
        await (await transaction.send(topic, b"2"))
        raise ZeroDivisionError


def test_a_transaction_as_a_context_manager(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog, config={"max.message.bytes": "1000"})
    with Producer(shared_tidelog, transactional_id=unique("id")) as producer:
        with producer.transaction() as transaction:
            transaction.send(topic, b"1")
            transaction.send_offsets("group", {TopicPartition(topic, 0): 1})
        with pytest.raises(ZeroDivisionError):
            _fail(producer, topic)
        with pytest.raises(ErrorResponse, match="MESSAGE_TOO_LARGE"):
            _send_too_much(producer, topic)
        with producer.transaction() as transaction:
            transaction.send(topic, b"4")
    assert committed(shared_tidelog, topic) == [b"1", b"4"]


async def test_an_async_transaction_as_a_context_manager(shared_tidelog: str) -> None:
    topic = new_topic(shared_tidelog)
    async with AsyncProducer(shared_tidelog, transactional_id=unique("id")) as producer:
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"1")
        with pytest.raises(ZeroDivisionError):
            await _fail_async(producer, topic)
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"3")
    assert committed(shared_tidelog, topic) == [b"1", b"3"]
