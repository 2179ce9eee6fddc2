"""Read a topic as fast as the broker and librdkafka can."""

from __future__ import annotations

import time

import attrs
from confluent_kafka import Consumer, TopicPartition

from benchmarks.procfs import Usage, as_usage

from .clients import steady_consumer_config
from .meter import Meter

_AT_A_TIME = 10_000
_PATIENCE_S = 1.0
_STALLED_S = 20.0


@attrs.frozen
class ConsumeSpec:
    """Read all `records` of a topic, over and over, until at least `seconds` have passed."""

    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    records: int
    seconds: float


@attrs.frozen
class ConsumeResult:
    """`records` received in all passes within `usage.wall_s`."""

    records: int
    passes: int
    usage: Usage = attrs.field(converter=as_usage)


def consume(spec: ConsumeSpec) -> ConsumeResult:
    """Whole passes from offset 0, each by a fresh assignment of all partitions.

    Raises TimeoutError when no record arrives for 20 s, RuntimeError when some were errors instead.
    """
    consumer = Consumer(steady_consumer_config(spec.bootstrap))
    try:
        consumer.list_topics(spec.topic, timeout=10)
        _read(consumer, spec, records=1)
        meter = Meter(spec.broker_pid)
        passes = 0
        while passes == 0 or meter.elapsed_s < spec.seconds:
            _read(consumer, spec, spec.records)
            passes += 1
        return ConsumeResult(passes * spec.records, passes, meter.read())
    finally:
        consumer.close()


def _read(consumer: Consumer, spec: ConsumeSpec, records: int) -> None:
    partitions = [TopicPartition(spec.topic, partition, 0) for partition in range(spec.partitions)]
    consumer.assign(partitions)
    received = 0
    last_progress = time.monotonic()
    while received < records:
        # It waits for as many as it is asked for, so the last call must not ask for more than there are.
        messages = consumer.consume(min(_AT_A_TIME, records - received), _PATIENCE_S)
        if messages:
            last_progress = time.monotonic()
            received += len(messages)
        elif time.monotonic() - last_progress > _STALLED_S:
            raise TimeoutError(f"only {received} of {records} records of {spec.topic} arrived")
    # A message that only carries an error is counted above, but moves no position.
    reached = sum(max(0, each.offset) for each in consumer.position(partitions))
    if reached < records:
        raise RuntimeError(f"{spec.topic}: read {reached} records instead of {records}")
