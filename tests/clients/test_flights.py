"""Real events, all 336,776 in the long test: what was acknowledged is read back, whatever happened."""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S

from .aiokafka_reader import read_with_aiokafka
from .brokers import running_broker
from .flights import COUNT, flights
from .kcat import read_with_kcat
from .records import Record, by_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

    from .brokers import Broker

TOPIC = "flights"
PARTITIONS = 6
POLL_EVERY = 5_000
SAMPLE = 20_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of its own for each test, since it is stopped and killed."""
    with running_broker(tmp_path) as running:
        yield running


def test_flights_are_read_back_before_and_after_a_restart_and_a_kill(broker: Broker) -> None:
    expected = produce_flights(broker.bootstrap, SAMPLE)
    assert_every_flight_once_in_order(expected, SAMPLE)
    assert by_partition(read_with_aiokafka(broker.bootstrap, TOPIC, PARTITIONS)) == expected
    assert by_partition(read_with_kcat(broker.bootstrap, TOPIC)) == expected
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
    # What either of them has lost is missing now.
    assert by_partition(read_with_kcat(broker.bootstrap, TOPIC)) == expected


@pytest.mark.long
def test_ends_while_flights_are_produced_lose_and_double_none(broker: Broker) -> None:
    ends = iter((broker.stop, broker.kill))

    def end_and_start() -> None:
        next(ends)()
        broker.start()

    expected = produce_flights(broker.bootstrap, COUNT, after_each_third=end_and_start, compression="lz4")
    assert_every_flight_once_in_order(expected, COUNT)
    assert by_partition(read_with_kcat(broker.bootstrap, TOPIC)) == expected


def produce_flights(
    bootstrap: str,
    count: int,
    *,
    after_each_third: Callable[[], None] = lambda: None,
    compression: str = "none",
) -> list[Record]:
    """Produce so many flights; what was acknowledged, partition after partition in order of offsets.

    `after_each_third` is called once one and two thirds of them are on their way and half of that is
    acknowledged.
    """
    _create_topic(bootstrap)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "compression.type": compression,
            "linger.ms": 20,
            "queue.buffering.max.messages": COUNT,
        }
    )
    acknowledged: list[Record] = []
    for number, flight in enumerate(flights()[:count]):
        producer.produce(
            TOPIC,
            flight.value,
            flight.key,
            timestamp=flight.timestamp_ms,
            on_delivery=partial(_note, acknowledged),
        )
        if number % POLL_EVERY == 0:
            producer.poll(0)
        if number in (count // 3, count * 2 // 3):
            _poll_until(producer, acknowledged, number // 2)
            after_each_third()
    assert producer.flush(DEADLINE_S) == 0
    return sorted(acknowledged)


def _create_topic(bootstrap: str) -> None:
    # The events are years old: a broker that deletes what is old must not.
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([topic]).values():
        created.result(DEADLINE_S)


def _note(acknowledged: list[Record], error: KafkaError | None, message: Message) -> None:
    assert error is None, error
    partition, offset, (_, timestamp_ms) = message.partition(), message.offset(), message.timestamp()
    assert partition is not None
    assert offset is not None
    acknowledged.append(Record(partition, offset, message.key(), message.value(), timestamp_ms))


def _poll_until(producer: Producer, acknowledged: list[Record], count: int) -> None:
    while len(acknowledged) < count:
        producer.poll(0.1)


def assert_every_flight_once_in_order(records: list[Record], count: int) -> None:
    """Offsets without a gap, each aircraft in one partition, and there in the order of the data set."""
    offsets = [(partition, offset) for partition, size in _sizes(records) for offset in range(size)]
    assert [(record.partition, record.offset) for record in records] == offsets
    numbers = {flight.value: number for number, flight in enumerate(flights())}
    assert sorted(numbers[record.value] for record in records if record.value) == [*range(count)]
    for _, group in itertools.groupby(records, key=lambda record: record.partition):
        order = [numbers[record.value] for record in group if record.value]
        assert order == sorted(order)
    homes = {(record.key, record.partition) for record in records if record.key}
    assert len(homes) == len({key for key, _ in homes})


def _sizes(records: list[Record]) -> list[tuple[int, int]]:
    """The number of records of each partition."""
    return sorted(Counter(record.partition for record in records).items())
