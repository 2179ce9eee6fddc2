"""Reading a whole topic with aiokafka, without a group."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from tests.deadlines import DEADLINE_S

from .records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS_AT_ONCE = 50_000


def read_with_aiokafka(bootstrap: str, topic: str, partitions: int, **settings: Any) -> list[Record]:
    """All records that are there now, each partition in order."""
    return asyncio.run(asyncio.wait_for(_read(bootstrap, topic, partitions, settings), DEADLINE_S))


async def _read(bootstrap: str, topic: str, partitions: int, settings: dict[str, Any]) -> list[Record]:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", **settings)
    await consumer.start()
    try:
        assigned = [TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(assigned)
        ends: dict[TopicPartition, int] = await consumer.end_offsets(assigned)
        records: list[Record] = []
        while not await _has_reached(consumer, ends):
            for fetched in (await consumer.getmany(timeout_ms=100, max_records=RECORDS_AT_ONCE)).values():
                records += map(_record, fetched)
        return records
    finally:
        await consumer.stop()


async def _has_reached(consumer: AIOKafkaConsumer, ends: dict[TopicPartition, int]) -> bool:
    positions: Sequence[int] = [await consumer.position(partition) for partition in ends]
    return all(position >= end for position, end in zip(positions, ends.values(), strict=True))


def _record(fetched: Any) -> Record:
    return Record(fetched.partition, fetched.offset, fetched.key, fetched.value, fetched.timestamp)
