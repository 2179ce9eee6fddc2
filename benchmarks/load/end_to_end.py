"""How long it takes from a producer's call until a consumer holds the record."""

from __future__ import annotations

import gc
import struct
import time
from threading import Thread

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from benchmarks.payloads import make_values

from .acknowledge import LatencyResult, LatencySpec, connected_producer
from .clients import consumer_config
from .meter import Meter
from .pacing import paced

_SENT_AT = struct.Struct(">q")
_PATIENCE_S = 10.0
_WARM_UP = 200


def end_to_end(spec: LatencySpec) -> LatencyResult:
    """Time `count` records from `produce` until the consumer's `poll` hands them over.

    Producer and consumer share a process, hence a clock; each has its own connection and threads in
    librdkafka. Raises TimeoutError when a record does not arrive, KafkaException when one is refused.
    """
    producer = connected_producer(spec.bootstrap, only_errors=True)
    consumer = Consumer(consumer_config(spec.bootstrap))
    try:
        values = [value[_SENT_AT.size :] for value in make_values(spec.value_bytes)]
        _warm_up(producer, consumer, spec, values)
        gc.disable()
        meter = Meter(spec.broker_pid)
        measure = _at_rate if spec.per_second else _one_at_a_time
        return LatencyResult(measure(producer, consumer, spec, values), meter.read())
    finally:
        consumer.close()


def _warm_up(producer: Producer, consumer: Consumer, spec: LatencySpec, values: list[bytes]) -> None:
    """Let both clients connect and the consumer wait at the end of the topic."""
    _, end = consumer.get_watermark_offsets(TopicPartition(spec.topic, 0), timeout=10)
    consumer.assign([TopicPartition(spec.topic, 0, end)])
    for number in range(_WARM_UP):
        _one(producer, consumer, spec.topic, values[number])


def _send(producer: Producer, topic: str, rest: bytes) -> None:
    producer.produce(topic, _SENT_AT.pack(time.perf_counter_ns()) + rest, None, 0)
    producer.poll(0)


def _receive(consumer: Consumer) -> float:
    """The latency of the next record, in microseconds."""
    message: Message | None = consumer.poll(_PATIENCE_S)
    received_at = time.perf_counter_ns()
    if message is None:
        raise TimeoutError(f"a record did not arrive within {_PATIENCE_S:g} s")
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    value = message.value()
    assert isinstance(value, bytes)
    (sent_at,) = _SENT_AT.unpack_from(value)
    return float(received_at - sent_at) / 1000


def _one(producer: Producer, consumer: Consumer, topic: str, rest: bytes) -> float:
    _send(producer, topic, rest)
    return _receive(consumer)


def _one_at_a_time(
    producer: Producer, consumer: Consumer, spec: LatencySpec, values: list[bytes]
) -> list[float]:
    return [_one(producer, consumer, spec.topic, values[n % len(values)]) for n in range(spec.count)]


def _at_rate(producer: Producer, consumer: Consumer, spec: LatencySpec, values: list[bytes]) -> list[float]:
    def send_all() -> None:
        for number in paced(spec.count, spec.per_second):
            _send(producer, spec.topic, values[number % len(values)])

    sender = Thread(target=send_all, daemon=True)
    sender.start()
    latencies = [_receive(consumer) for _ in range(spec.count)]
    sender.join()
    return latencies
