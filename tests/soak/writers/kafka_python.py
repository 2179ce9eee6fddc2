"""A writer with kafka-python, held to the versions of Kafka 0.11: idempotent, not compressed."""

from __future__ import annotations

import itertools
import time

from kafka import KafkaProducer

from tests.soak.writers.numbers import AT_ONCE, PAUSE_S, EndOfInput, acknowledged, arguments, value

PATIENCE_MS = 300_000


def main() -> None:
    """Write until the input ends."""
    given, ended, numbers = arguments(), EndOfInput(), itertools.count()
    producer = KafkaProducer(
        bootstrap_servers=given.bootstrap,
        api_version=(0, 11),
        enable_idempotence=True,
        delivery_timeout_ms=PATIENCE_MS,
        reconnect_backoff_max_ms=300,
    )
    while not ended:
        batch = list(itertools.islice(numbers, AT_ONCE))
        sent = [
            producer.send(given.topic, value(number), partition=number % given.partitions) for number in batch
        ]
        for number, future in zip(batch, sent, strict=True):
            future.get(PATIENCE_MS / 1000)
            acknowledged(number)
        time.sleep(PAUSE_S)
    producer.close()


if __name__ == "__main__":
    main()
