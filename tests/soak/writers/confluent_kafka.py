"""A writer with confluent-kafka: idempotent, lz4."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from tests.soak.writers.numbers import AT_ONCE, PAUSE_S, EndOfInput, acknowledged, arguments, value

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

PATIENCE_MS = 300_000


def main() -> None:
    """Write until the input ends."""
    given, ended, numbers = arguments(), EndOfInput(), itertools.count()
    producer = Producer(
        {
            "bootstrap.servers": given.bootstrap,
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "message.timeout.ms": PATIENCE_MS,
            "reconnect.backoff.max.ms": 300,
        }
    )

    def report(number: int, error: KafkaError | None) -> None:
        if error is not None:
            raise SystemExit(f"record {number}: {error}")
        acknowledged(number)

    while not ended:
        for number in itertools.islice(numbers, AT_ONCE):

            def delivered(error: KafkaError | None, _: Message, number: int = number) -> None:
                report(number, error)

            producer.produce(
                given.topic, value(number), partition=number % given.partitions, on_delivery=delivered
            )
        producer.poll(PAUSE_S)
        time.sleep(PAUSE_S)
    if producer.flush(PATIENCE_MS / 1000):
        raise SystemExit("records are left that were never acknowledged")


if __name__ == "__main__":
    main()
