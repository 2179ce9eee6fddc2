"""A writer with aiokafka: idempotent, gzip."""

from __future__ import annotations

import asyncio
import itertools

from aiokafka import AIOKafkaProducer

from tests.soak.writers.numbers import AT_ONCE, PAUSE_S, EndOfInput, acknowledged, arguments, value

PATIENCE_MS = 300_000


async def main() -> None:
    """Write until the input ends."""
    given, ended, numbers = arguments(), EndOfInput(), itertools.count()
    producer = AIOKafkaProducer(
        bootstrap_servers=given.bootstrap,
        enable_idempotence=True,
        compression_type="gzip",
        request_timeout_ms=PATIENCE_MS,
        retry_backoff_ms=100,
    )
    await producer.start()
    while not ended:
        batch = list(itertools.islice(numbers, AT_ONCE))
        sent = [
            await producer.send(given.topic, value(number), partition=number % given.partitions)
            for number in batch
        ]
        await asyncio.gather(*sent)
        for number in batch:
            acknowledged(number)
        await asyncio.sleep(PAUSE_S)
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
