"""The server in async tests: under asyncio and under trio."""

from __future__ import annotations

import asyncio

import trio
from aiokafka import AIOKafkaConsumer

from tidelog.client import AsyncProducer
from tidelog.testing import AsyncKafkaServer


async def use() -> None:
    async with AsyncKafkaServer({"num.partitions": 2}, topics={"orders": 1}) as kafka:
        async with AsyncProducer(kafka.bootstrap, client_id="shop") as producer:
            with kafka.faults.produce(error="NOT_LEADER_OR_FOLLOWER", times=1) as fault:
                await producer.send_and_wait("orders", b"tea")
            assert fault.count == 1
        await kafka.produce("orders", "cake")
        found = await kafka.wait_for_records("orders", 2)
        assert [record.value for record in found] == [b"tea", b"cake"]
        assert [each.client_id for each in kafka.requests("Produce")] == ["shop", "shop"]
        kafka.clear_requests()
        assert kafka.requests() == []
        await kafka.create_topic("letters", 3)
        assert await kafka.topics() == ["letters", "orders"]
        await kafka.delete_topic("letters")
        await kafka.alter_topic("orders", {"cleanup.policy": "compact"})
        await kafka.compact_now("orders")
        kafka.clock.advance(days=1)
        await kafka.expire_now()
        await kafka.pause()
        await kafka.resume()
        assert await kafka.groups() == {}
    assert not kafka.server.is_running


def test_server_under_trio() -> None:
    trio.run(use)


def test_server_under_asyncio() -> None:
    asyncio.run(use())


def test_server_with_a_group_of_aiokafka() -> None:
    async def main() -> None:
        async with AsyncKafkaServer(topics=["orders"]) as kafka:
            await kafka.produce("orders", "tea")
            consumer = AIOKafkaConsumer(
                "orders", **kafka.config_for("aiokafka", group_id="kitchen", auto_offset_reset="earliest")
            )
            await consumer.start()
            try:
                assert (await consumer.getone()).value == b"tea"
                await consumer.commit()
                assert await kafka.lag("kitchen") == 0
                assert len(await kafka.committed("kitchen")) == 1
            finally:
                await consumer.stop()

    asyncio.run(main())


def test_server_of_a_cancelled_test_is_stopped() -> None:
    server = AsyncKafkaServer()

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with server:
                scope.cancel()
                await trio.sleep_forever()

    trio.run(main)
    assert not server.server.is_running
