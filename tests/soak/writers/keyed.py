"""A writer of keyed records with kafka-python, held to the versions of Kafka 0.11: idempotent, gzip."""

from __future__ import annotations

import time
from typing import Final

from kafka import KafkaProducer

from tests.soak.writers.keys import HEADER, arguments, journal, keyed_record
from tests.soak.writers.numbers import PAUSE_S, EndOfInput

NAME: Final = "keyed"
PATIENCE_MS: Final = 300_000
AT_ONCE: Final = 40


def main() -> None:
    """Write until the input ends."""
    given, ended = arguments(), EndOfInput()
    producer = KafkaProducer(
        bootstrap_servers=given.bootstrap,
        api_version=(0, 11),
        enable_idempotence=True,
        compression_type="gzip",
        delivery_timeout_ms=PATIENCE_MS,
        reconnect_backoff_max_ms=300,
    )
    first = given.first
    while not ended:
        numbers = range(first, first + AT_ONCE)
        journal("begun", numbers)
        records = [keyed_record(NAME, number) for number in numbers]
        sent = [
            producer.send(
                topic,
                key=record.key,
                value=record.value,
                headers=[(HEADER, record.header)],
                partition=record.partition(given.partitions),
            )
            for record in records
            for topic in given.topics
        ]
        for future in sent:
            future.get(PATIENCE_MS / 1000)
        journal("committed", numbers)
        first = numbers.stop
        time.sleep(PAUSE_S)
    producer.close()


if __name__ == "__main__":
    main()
