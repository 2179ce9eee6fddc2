"""Produce as fast as librdkafka and the broker can."""

from __future__ import annotations

from itertools import count, repeat
from random import Random
from typing import TYPE_CHECKING

import attrs
from confluent_kafka import KafkaError, KafkaException, Producer

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage

from .clients import producer_config
from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Iterator

# At most, of a record in a batch: lengths, deltas, attributes, as varints (Kafka documentation, "Record").
RECORD_OVERHEAD_BYTES = 11
_FLUSH_TIMEOUT_S = 60.0
_QUEUE_FULL_PAUSE_S = 0.001


@attrs.frozen
class ProduceSpec:
    """Values of `value_bytes`, for `seconds` or until `most_bytes`, whichever comes first."""

    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    value_bytes: int
    batch_bytes: int
    compression: str
    seconds: float
    most_bytes: int
    keys: int = 0
    """How many different keys records are given at random; 0 for records without keys."""


@attrs.frozen
class ProduceResult:
    """`records` acknowledged within `usage.wall_s`, from the first call until the last acknowledgement.

    `stored` counts the unmeasured ones before them too.
    """

    records: int
    stored: int
    usage: Usage = attrs.field(converter=as_usage)


class _Deliveries:
    """Keeps the first failure that librdkafka reports; successes are not reported at all."""

    def __init__(self) -> None:
        self.failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, _message: object) -> None:
        self.failure = self.failure or error

    def check(self) -> None:
        if self.failure is not None:
            raise KafkaException(self.failure)


def produce(spec: ProduceSpec) -> ProduceResult:
    """Fill one partition's batch after the other, until time or bytes are used up, then flush.

    Raises KafkaException when a record was refused, TimeoutError when the queue does not empty.
    """
    deliveries = _Deliveries()
    key_bytes = len(_key(spec.keys)) if spec.keys else 0
    per_batch = max(1, spec.batch_bytes // (spec.value_bytes + key_bytes + RECORD_OVERHEAD_BYTES))
    config = producer_config(spec.bootstrap, spec.partitions, spec.batch_bytes, per_batch, spec.compression)
    producer = Producer({**config, "on_delivery": deliveries})
    values = make_values(spec.value_bytes)
    keys = _random_keys(spec.keys)
    _warm_up(producer, spec, values[0])
    most_records = max(per_batch, spec.most_bytes // spec.value_bytes)
    meter = Meter(spec.broker_pid)
    sent = partition = 0
    while sent < most_records and meter.elapsed_s < spec.seconds:
        for each, key in zip(range(sent, sent + per_batch), keys, strict=False):
            _enqueue(producer, spec.topic, values[each % len(values)], key, partition)
        sent += per_batch
        partition = (partition + 1) % spec.partitions
        producer.poll(0)
        deliveries.check()
    _flush(producer)
    usage = meter.read()
    deliveries.check()
    return ProduceResult(sent, sent + spec.partitions, usage)


def _random_keys(different: int) -> Iterator[bytes | None]:
    """Always the same keys for the same number of different ones; none for 0."""
    if not different:
        return repeat(None)
    keys = [_key(number) for number in range(different)]
    random = Random(different).random
    return (keys[int(random() * different)] for _ in count())


def _key(number: int) -> bytes:
    return b"flight-%d" % number


def _warm_up(producer: Producer, spec: ProduceSpec, value: bytes) -> None:
    """A record to each partition: librdkafka takes up to half a second until it has a producer id."""
    for partition in range(spec.partitions):
        producer.produce(spec.topic, value, b"warm-up", partition)
    _flush(producer)


def _flush(producer: Producer) -> None:
    if producer.flush(_FLUSH_TIMEOUT_S):
        raise TimeoutError(f"the broker did not acknowledge everything within {_FLUSH_TIMEOUT_S:g} s")


def _enqueue(producer: Producer, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, partition)
        except BufferError:
            producer.poll(_QUEUE_FULL_PAUSE_S)
        else:
            return
