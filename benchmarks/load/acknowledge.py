"""How long a producer waits for the acknowledgement of one record."""

from __future__ import annotations

import gc
import time
from collections import deque
from functools import cache
from threading import Event, Thread

import attrs
from confluent_kafka import KafkaError, KafkaException, Producer

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage

from .clients import prompt_producer_config
from .meter import Meter
from .pacing import paced

_PATIENCE_S = 0.1
_FLUSH_TIMEOUT_S = 30.0
_UNMEASURED = 200


@attrs.frozen
class LatencySpec:
    """`count` records of `value_bytes`: one at a time when `per_second` is 0, else at that rate."""

    bootstrap: str
    broker_pid: int
    topic: str
    value_bytes: int
    count: int
    per_second: float
    ca_file: str = ""


@attrs.frozen
class LatencyResult:
    """One latency per record, in microseconds, in the order of sending."""

    latencies_us: list[float]
    usage: Usage = attrs.field(converter=as_usage)


class _Stopwatch:
    """Takes the time from a record's `produce` call until its delivery report.

    Reports come in the order of sending: there is one partition, and the producer is idempotent.
    """

    def __init__(self) -> None:
        self.latencies_us: list[float] = []
        self.failure: KafkaError | None = None
        self._sent: deque[int] = deque()

    def send(self, producer: Producer, topic: str, value: bytes) -> None:
        self._sent.append(time.perf_counter_ns())
        producer.produce(topic, value, None, 0, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        self.latencies_us.append((time.perf_counter_ns() - self._sent.popleft()) / 1000)
        self.failure = self.failure or error

    def check(self) -> None:
        if self.failure is not None:
            raise KafkaException(self.failure)


@cache
def connected_producer(bootstrap: str, ca_file: str = "", *, only_errors: bool = False) -> Producer:
    """The same one for all slices of a load: a new one takes up to half a second for its producer id."""
    config = prompt_producer_config(bootstrap)
    tls = {"security.protocol": "SSL", "ssl.ca.location": ca_file} if ca_file else {}
    return Producer({**config, **tls, "delivery.report.only.error": only_errors})


def acknowledge(spec: LatencySpec) -> LatencyResult:
    """Time `count` acknowledgements, after some unmeasured ones on the same connection.

    Raises KafkaException when a record was refused.
    """
    producer = connected_producer(spec.bootstrap, spec.ca_file)
    producer.list_topics(spec.topic, timeout=10)
    values = make_values(spec.value_bytes)
    one_at_a_time(producer, spec.topic, values, _UNMEASURED)
    gc.disable()
    meter = Meter(spec.broker_pid)
    if spec.per_second:
        latencies = _at_rate(producer, spec, values)
    else:
        latencies = one_at_a_time(producer, spec.topic, values, spec.count)
    return LatencyResult(latencies, meter.read())


def one_at_a_time(producer: Producer, topic: str, values: list[bytes], count: int) -> list[float]:
    """Send the next record when the last one is acknowledged; the latencies in microseconds."""
    stopwatch = _Stopwatch()
    for number in range(count):
        stopwatch.send(producer, topic, values[number % len(values)])
        while len(stopwatch.latencies_us) <= number:
            producer.poll(_PATIENCE_S)
    stopwatch.check()
    return stopwatch.latencies_us


def _at_rate(producer: Producer, spec: LatencySpec, values: list[bytes]) -> list[float]:
    """Reports are taken by a thread that waits for them, so that a sleeping sender delays none."""
    stopwatch = _Stopwatch()
    finished = Event()

    def take_reports() -> None:
        while not finished.is_set():
            producer.poll(_PATIENCE_S)

    taker = Thread(target=take_reports)
    taker.start()
    try:
        for number in paced(spec.count, spec.per_second):
            stopwatch.send(producer, spec.topic, values[number % len(values)])
        producer.flush(_FLUSH_TIMEOUT_S)
    finally:
        finished.set()
        taker.join()
    stopwatch.check()
    return stopwatch.latencies_us
