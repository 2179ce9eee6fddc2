"""Consumers of Python clients: every value of a topic, one by one, by batch, or as an Arrow table.

All have the broker wait for new records no longer than a millisecond: else the next pass waits for the last
request of the one before, which is at the end of the topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

import attrs

from benchmarks.procfs import Usage, as_usage

from .client_producers import AIOKAFKA, CONFLUENT, KAFKA_PYTHON, TIDELOG, TIDELOG_ASYNCIO
from .clients import steady_consumer_config
from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORDS, BATCHES, VIEWS, TABLES = "record", "batch", "view", "arrow"
"""One by one, lists, undecoded batches, Arrow tables."""
_WAIT_MS = 1
_AT_A_TIME = 10_000
_PATIENCE_S = 1.0

Pass = Callable[[int], int]
"""Read at least so many records from the beginning; return the bytes of their values."""


@attrs.frozen
class ClientConsumerSpec:
    """Which client reads the `records` of a topic with one partition, over and over, for `seconds`."""

    bootstrap: str
    broker_pid: int
    topic: str
    client: str
    way: str
    records: int
    value_bytes: int
    seconds: float


@attrs.frozen
class ClientConsumerResult:
    """`records` whose values were seen in all passes within `usage.wall_s`."""

    records: int
    usage: Usage = attrs.field(converter=as_usage)


def client_consume(spec: ClientConsumerSpec) -> ClientConsumerResult:
    """Whole passes from offset 0; the first one, which connects, is not measured.

    Raises RuntimeError when the values of a pass have another size than they must have.
    """
    key = (spec.client, spec.way)
    if key in _ASYNC:
        return asyncio.run(_measured_async(spec, _ASYNC[key]))
    one_pass = _BLOCKING[key](spec)
    _check(spec, one_pass(spec.records))
    meter, passes = Meter(spec.broker_pid), 0
    while passes == 0 or meter.elapsed_s < spec.seconds:
        _check(spec, one_pass(spec.records))
        passes += 1
    return ClientConsumerResult(passes * spec.records, meter.read())


async def _measured_async(
    spec: ClientConsumerSpec, begin: Callable[[ClientConsumerSpec], Awaitable[Any]]
) -> ClientConsumerResult:
    one_pass, close = await begin(spec)
    _check(spec, await one_pass(spec.records))
    meter, passes = Meter(spec.broker_pid), 0
    while passes == 0 or meter.elapsed_s < spec.seconds:
        _check(spec, await one_pass(spec.records))
        passes += 1
    usage = meter.read()
    await close()
    return ClientConsumerResult(passes * spec.records, usage)


def _check(spec: ClientConsumerSpec, size: int) -> None:
    if size != spec.records * spec.value_bytes:
        raise RuntimeError(f"{spec.client}: values of {size} bytes, not {spec.records * spec.value_bytes}")


def _tidelog(spec: ClientConsumerSpec) -> tuple[Any, Callable[[], None]]:
    from tidelog.client import Consumer, TopicPartition

    consumer = Consumer(spec.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_WAIT_MS)
    partition = TopicPartition(spec.topic, 0)
    consumer.assign([partition])
    return consumer, lambda: consumer.seek(partition, 0)


def _tidelog_records(spec: ClientConsumerSpec) -> Pass:
    consumer, rewind = _tidelog(spec)

    def one_pass(records: int) -> int:
        rewind()
        size = 0
        for record in islice(consumer, records):
            size += len(record.value)
        return size

    return one_pass


def _tidelog_batches(spec: ClientConsumerSpec) -> Pass:
    consumer, rewind = _tidelog(spec)

    def one_pass(records: int) -> int:
        rewind()
        size = read = 0
        while read < records:
            for batch in consumer.poll_batches():
                found = batch.records()
                read += len(found)
                size += sum(len(record.value) for record in found)
        return size

    return one_pass


def _tidelog_views(spec: ClientConsumerSpec) -> Pass:
    consumer, rewind = _tidelog(spec)

    def one_pass(records: int) -> int:
        rewind()
        read = 0
        while read < records:
            read += sum(batch.record_count for batch in consumer.poll_batches())
        # Their values are not looked at.
        return read * spec.value_bytes

    return one_pass


def _tidelog_tables(spec: ClientConsumerSpec) -> Pass:
    import pyarrow.compute

    compute: Any = pyarrow.compute
    consumer, rewind = _tidelog(spec)

    def one_pass(records: int) -> int:
        rewind()
        size = read = 0
        while read < records:
            table = consumer.poll_arrow()
            read += table.num_rows
            size += compute.sum(compute.binary_length(table["value"])).as_py()
        return size

    return one_pass


def _confluent(spec: ClientConsumerSpec) -> tuple[Any, Callable[[], None]]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(steady_consumer_config(spec.bootstrap))
    return consumer, lambda: consumer.assign([TopicPartition(spec.topic, 0, 0)])


def _confluent_batches(spec: ClientConsumerSpec) -> Pass:
    consumer, rewind = _confluent(spec)

    def one_pass(records: int) -> int:
        rewind()
        size = read = 0
        while read < records:
            # It waits for as many as it is asked for, so the last call must not ask for more than there are.
            messages = consumer.consume(min(_AT_A_TIME, records - read), _PATIENCE_S)
            read += len(messages)
            size += sum(len(message.value()) for message in messages)
        return size

    return one_pass


def _confluent_tables(spec: ClientConsumerSpec) -> Pass:
    import pyarrow
    from pyarrow import compute as pyarrow_compute

    arrow: Any = pyarrow
    compute: Any = pyarrow_compute
    consumer, rewind = _confluent(spec)

    def table_of(messages: Sequence[Any]) -> Any:
        return arrow.table(
            {
                "topic": arrow.array([each.topic() for each in messages]).dictionary_encode(),
                "partition": arrow.array([each.partition() for each in messages], arrow.int32()),
                "offset": arrow.array([each.offset() for each in messages], arrow.int64()),
                "timestamp": arrow.array(
                    [each.timestamp()[1] for each in messages], arrow.timestamp("ms", "UTC")
                ),
                "key": arrow.array([each.key() for each in messages], arrow.binary()),
                "value": arrow.array([each.value() for each in messages], arrow.binary()),
                "headers": arrow.array(
                    [each.headers() or () for each in messages],
                    arrow.list_(arrow.struct([("name", arrow.string()), ("value", arrow.binary())])),
                ),
            }
        )

    def one_pass(records: int) -> int:
        rewind()
        size = read = 0
        while read < records:
            messages = consumer.consume(min(_AT_A_TIME, records - read), _PATIENCE_S)
            read += len(messages)
            table = table_of(messages)
            size += compute.sum(compute.binary_length(table["value"])).as_py() or 0
        return size

    return one_pass


def _kafka_python(spec: ClientConsumerSpec) -> Pass:
    from kafka import KafkaConsumer
    from kafka.structs import TopicPartition

    consumer: Any = KafkaConsumer(
        bootstrap_servers=spec.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_WAIT_MS
    )
    partition = TopicPartition(spec.topic, 0)
    consumer.assign([partition])

    def one_pass(records: int) -> int:
        consumer.seek(partition, 0)
        size = 0
        for record in islice(consumer, records):
            size += len(record.value)
        return size

    return one_pass


def _async_pass(consumer: Any, partition: Any) -> Callable[[int], Awaitable[int]]:
    async def one_pass(records: int) -> int:
        consumer.seek(partition, 0)
        size = read = 0
        async for record in consumer:
            size += len(record.value)
            read += 1
            if read == records:
                break
        return size

    return one_pass


async def _tidelog_asyncio(spec: ClientConsumerSpec) -> Any:
    from tidelog.client import AsyncConsumer, TopicPartition

    consumer = AsyncConsumer(spec.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_WAIT_MS)
    partition = TopicPartition(spec.topic, 0)
    consumer.assign([partition])

    return _async_pass(consumer, partition), consumer.close


async def _aiokafka(spec: ClientConsumerSpec) -> Any:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer: Any = AIOKafkaConsumer(
        bootstrap_servers=spec.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=_WAIT_MS
    )
    await consumer.start()
    partition = TopicPartition(spec.topic, 0)
    consumer.assign([partition])

    return _async_pass(consumer, partition), consumer.stop


_BLOCKING: dict[tuple[str, str], Callable[[ClientConsumerSpec], Pass]] = {
    (TIDELOG, RECORDS): _tidelog_records,
    (TIDELOG, BATCHES): _tidelog_batches,
    (TIDELOG, VIEWS): _tidelog_views,
    (TIDELOG, TABLES): _tidelog_tables,
    (CONFLUENT, BATCHES): _confluent_batches,
    (CONFLUENT, TABLES): _confluent_tables,
    (KAFKA_PYTHON, RECORDS): _kafka_python,
}
_ASYNC: dict[tuple[str, str], Callable[[ClientConsumerSpec], Awaitable[Any]]] = {
    (TIDELOG_ASYNCIO, RECORDS): _tidelog_asyncio,
    (AIOKAFKA, RECORDS): _aiokafka,
}
