"""A writer of keyed records with confluent-kafka: in transactions, of which some are aborted."""

from __future__ import annotations

import random
import time
from typing import Final

from confluent_kafka import KafkaException, Producer

from tests.soak.writers.keys import HEADER, Arguments, arguments, journal, keyed_record
from tests.soak.writers.numbers import PAUSE_S, EndOfInput

NAME: Final = "transactional"
TRANSACTION_TIMEOUT_MS: Final = 30_000
PATIENCE_S: Final = 180.0
AT_ONCE: Final = 40
ABORTED_SHARE: Final = 0.25


def main() -> None:
    """Write until the input ends."""
    given, ended = arguments(), EndOfInput()
    producer = Producer(
        {
            "bootstrap.servers": given.bootstrap,
            "transactional.id": f"soak-{NAME}",
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            # A codec that the oldest of the readers has.
            "compression.type": "snappy",
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 300,
            # See `tests.clients.exactly_once.confluent_worker`.
            "metadata.recovery.strategy": "none",
        }
    )
    producer.init_transactions(PATIENCE_S)
    first = given.first
    while not ended:
        numbers = range(first, first + AT_ONCE)
        journal("begun", numbers)
        journal("committed" if _transact(producer, given, numbers) else "aborted", numbers)
        first = numbers.stop
        time.sleep(PAUSE_S)


def _transact(producer: Producer, given: Arguments, numbers: range) -> bool:
    """Write numbers in a transaction; return whether it was committed.

    Raises:
        KafkaException: neither is certain.
    """
    producer.begin_transaction()
    try:
        for number in numbers:
            record = keyed_record(NAME, number)
            for topic in given.topics:
                producer.produce(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers={HEADER: record.header},
                    partition=record.partition(given.partitions),
                )
        if random.Random(numbers.start).random() < ABORTED_SHARE:
            producer.flush(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            return True
    except KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    producer.abort_transaction(PATIENCE_S)
    return False


if __name__ == "__main__":
    main()
