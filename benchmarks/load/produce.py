"""Produce as fast as librdkafka and the broker can."""

from __future__ import annotations

from functools import cache
from itertools import count, repeat
from random import Random
from typing import TYPE_CHECKING, Any

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


class _Producer:
    """An idempotent producer of full batches, with the first failure that librdkafka has reported.

    Successes are not reported at all.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self._failure: KafkaError | None = None
        self._producer = Producer({**config, "on_delivery": self._note_failure})

    def _note_failure(self, error: KafkaError | None, _message: object) -> None:
        self._failure = self._failure or error

    def enqueue(self, topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        """Wait for room in the queue, and add a record."""
        while True:
            try:
                self._producer.produce(topic, value, key, partition)
            except BufferError:
                self._producer.poll(_QUEUE_FULL_PAUSE_S)
            else:
                return

    def check(self) -> None:
        """Raise KafkaException when a record was refused."""
        self._producer.poll(0)
        if self._failure is not None:
            raise KafkaException(self._failure)

    def flush(self) -> None:
        """Wait until all is acknowledged; raises TimeoutError."""
        if self._producer.flush(_FLUSH_TIMEOUT_S):
            raise TimeoutError(f"the broker did not acknowledge everything within {_FLUSH_TIMEOUT_S:g} s")


@cache
def _connected_producer(
    bootstrap: str, partitions: int, batch_bytes: int, batch_records: int, compression: str
) -> _Producer:
    """The same one for all slices of a load: a new one takes up to half a second for its producer id."""
    return _Producer(producer_config(bootstrap, partitions, batch_bytes, batch_records, compression))


def produce(spec: ProduceSpec) -> ProduceResult:
    """Fill one partition's batch after the other, until time or bytes are used up, then flush.

    Raises KafkaException when a record was refused, TimeoutError when the queue does not empty.
    """
    key_bytes = len(_key(spec.keys)) if spec.keys else 0
    per_batch = max(1, spec.batch_bytes // (spec.value_bytes + key_bytes + RECORD_OVERHEAD_BYTES))
    producer = _connected_producer(
        spec.bootstrap, spec.partitions, spec.batch_bytes, per_batch, spec.compression
    )
    values = make_values(spec.value_bytes)
    keys = _random_keys(spec.keys)
    _warm_up(producer, spec, values[0])
    most_records = max(per_batch, spec.most_bytes // spec.value_bytes)
    meter = Meter(spec.broker_pid)
    sent = partition = 0
    while sent < most_records and meter.elapsed_s < spec.seconds:
        for each, key in zip(range(sent, sent + per_batch), keys, strict=False):
            producer.enqueue(spec.topic, values[each % len(values)], key, partition)
        sent += per_batch
        partition = (partition + 1) % spec.partitions
        producer.check()
    producer.flush()
    usage = meter.read()
    producer.check()
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


def _warm_up(producer: _Producer, spec: ProduceSpec, value: bytes) -> None:
    """A record to each partition: librdkafka learns of a topic, and has a producer id."""
    for partition in range(spec.partitions):
        producer.enqueue(spec.topic, value, b"warm-up", partition)
    producer.flush()
