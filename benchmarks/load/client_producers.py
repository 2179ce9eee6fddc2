"""Producers of Python clients: the first record, as many as possible, and one after the other."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage, resident_bytes
from benchmarks.summaries import percentile

from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Awaitable

TIDELOG, TIDELOG_ASYNCIO = "tidelog", "tidelog-asyncio"
AIOKAFKA, KAFKA_PYTHON, CONFLUENT = "aiokafka", "kafka-python", "confluent-kafka"
BATCH_BYTES = 128 * 1024
_RECORDS_AT_A_TIME = 1000
_QUEUE_FULL_PAUSE_S = 0.001


@attrs.frozen
class ClientProducerSpec:
    """Which client sends values of `value_bytes` for `seconds`, then `waits` that are each acknowledged.

    All are idempotent, and have batches of the same size but for librdkafka, whose own default is larger.
    """

    bootstrap: str
    broker_pid: int
    topic: str
    client: str
    value_bytes: int
    compression: str
    seconds: float
    waits: int


@attrs.frozen
class ClientProducerResult:
    """Records and the usage of sending them; time and memory of the import and the first record."""

    records: int
    first_s: float
    first_bytes: int
    p50_us: float
    usage: Usage = attrs.field(converter=as_usage)


@attrs.frozen
class _Sending:
    """How a client without an event loop sends, waits for one record, and flushes."""

    send: Callable[[bytes], Any]
    wait: Callable[[bytes], Any]
    flush: Callable[[], Any]


def client_produce(spec: ClientProducerSpec) -> ClientProducerResult:
    """Send with the client of the spec; its process has imported nothing of it before."""
    # Before any client is imported: what it takes is part of the figure.
    before_bytes, start = _resident(), time.perf_counter()
    if spec.client in (AIOKAFKA, TIDELOG_ASYNCIO):
        return asyncio.run(_async_produce(spec, before_bytes, start))
    sending = _BLOCKING[spec.client](spec)
    values = make_values(spec.value_bytes)
    sending.wait(values[0])
    first_s, first_bytes = time.perf_counter() - start, _resident() - before_bytes
    meter, sent = Meter(spec.broker_pid), 0
    while meter.elapsed_s < spec.seconds:
        for each in range(_RECORDS_AT_A_TIME):
            sending.send(values[each % len(values)])
        sent += _RECORDS_AT_A_TIME
    sending.flush()
    usage = meter.read()
    waits = [_timed(lambda: sending.wait(values[0])) for _ in range(spec.waits)]
    return ClientProducerResult(sent, first_s, first_bytes, percentile(waits, 50.0), usage)


async def _async_produce(spec: ClientProducerSpec, before_bytes: int, start: float) -> ClientProducerResult:
    producer: Any = await _ASYNC[spec.client](spec)
    values = make_values(spec.value_bytes)
    await producer.send_and_wait(spec.topic, values[0])
    first_s, first_bytes = time.perf_counter() - start, _resident() - before_bytes
    meter, sent = Meter(spec.broker_pid), 0
    while meter.elapsed_s < spec.seconds:
        for each in range(_RECORDS_AT_A_TIME):
            await producer.send(spec.topic, values[each % len(values)])
        sent += _RECORDS_AT_A_TIME
    await producer.flush()
    usage = meter.read()
    waits: list[float] = []
    for _ in range(spec.waits):
        begun = time.perf_counter()
        await producer.send_and_wait(spec.topic, values[0])
        waits.append((time.perf_counter() - begun) * 1e6)
    await (producer.stop() if spec.client == AIOKAFKA else producer.close())
    return ClientProducerResult(sent, first_s, first_bytes, percentile(waits, 50.0), usage)


def _timed(call: Callable[[], Any]) -> float:
    """Return how long a call takes, in microseconds."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def _resident() -> int:
    return resident_bytes(os.getpid())


def _tidelog(spec: ClientProducerSpec) -> _Sending:
    from tidelog.client import Producer

    producer = Producer(spec.bootstrap, compression_type=spec.compression, batch_size=BATCH_BYTES)
    return _Sending(
        lambda value: producer.send(spec.topic, value),
        lambda value: producer.send_and_wait(spec.topic, value),
        producer.flush,
    )


def _kafka_python(spec: ClientProducerSpec) -> _Sending:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=spec.bootstrap, compression_type=_named(spec), batch_size=BATCH_BYTES
    )
    return _Sending(
        lambda value: producer.send(spec.topic, value),
        lambda value: producer.send(spec.topic, value).get(),
        producer.flush,
    )


def _confluent(spec: ClientProducerSpec) -> _Sending:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": spec.bootstrap,
            "compression.type": spec.compression,
            "enable.idempotence": True,
            "linger.ms": 0,
        }
    )

    def send(value: bytes) -> None:
        for _ in count():
            try:
                producer.produce(spec.topic, value)
            except BufferError:
                producer.poll(_QUEUE_FULL_PAUSE_S)
            else:
                return

    def wait(value: bytes) -> None:
        send(value)
        producer.flush()

    return _Sending(send, wait, producer.flush)


async def _tidelog_asyncio(spec: ClientProducerSpec) -> Any:
    from tidelog.client import AsyncProducer

    return AsyncProducer(spec.bootstrap, compression_type=spec.compression, batch_size=BATCH_BYTES)


async def _aiokafka(spec: ClientProducerSpec) -> Any:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=spec.bootstrap,
        compression_type=_named(spec),
        max_batch_size=BATCH_BYTES,
        enable_idempotence=True,
    )
    await producer.start()
    return producer


def _named(spec: ClientProducerSpec) -> Any:
    return None if spec.compression == "none" else spec.compression


_BLOCKING: dict[str, Callable[[ClientProducerSpec], _Sending]] = {
    TIDELOG: _tidelog,
    KAFKA_PYTHON: _kafka_python,
    CONFLUENT: _confluent,
}
_ASYNC: dict[str, Callable[[ClientProducerSpec], Awaitable[Any]]] = {
    TIDELOG_ASYNCIO: _tidelog_asyncio,
    AIOKAFKA: _aiokafka,
}
