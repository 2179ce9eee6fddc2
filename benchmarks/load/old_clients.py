"""Clients of either age with next to no client: encoded requests, replayed, at a rate or as fast as it goes.

Produce 2 has the records in messages of format 1, Fetch 3 wants them so. Produce 7 and Fetch 7 are the last
versions before others changed the layout of the frame: the same records in record batches.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import attrs

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage
from tidelog.kernel.records.compression import compress, register_codecs
from tidelog.kernel.records.message_set import MAGIC_V1, Message, encode_message
from tidelog.plugins.client.batches import NewRecord, build_batch
from tidelog.plugins.compression import kafka_codecs
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.plugins.protocol_kafka.messages.header import encode_request
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .meter import Meter
from .raw_batch import records_per_batch
from .raw_connection import RawConnection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.plugins.protocol_kafka.messages.api import Api

MESSAGE_SETS = 2
"""A version of Produce."""
_FETCH_MESSAGES = 3
BATCHES = 7
"""A version of Produce and of Fetch."""
_NAMES_SINCE = {apis.PRODUCE.key: 4 + 4, apis.FETCH.key: 4 + 4 + 4}
"""Bytes of an answer before the topic's name; Fetch 7 has an error code and a session id more."""
_SESSION_BYTES = 6
_PARTITION_MAX_BYTES = 1 << 20
_TIMEOUT_MS = 30_000


@attrs.frozen
class OldClientSpec:
    """Records of `value_bytes` in sets of `batch_bytes`, of partition 0 of `topic`, for `seconds`.

    `version` is that of the request; `bytes_per_second` of 0 is as fast as it goes. It ends with `most_bytes`
    unless that is 0.
    """

    bootstrap: str
    broker_pid: int
    topic: str
    value_bytes: int
    batch_bytes: int
    version: int
    codec: int
    seconds: float
    bytes_per_second: float = 0.0
    most_bytes: int = 0


@attrs.frozen
class OldClientResult:
    """`records` that were produced, or `size_bytes` of records that were fetched."""

    records: int
    size_bytes: int
    usage: Usage = attrs.field(converter=as_usage)


def old_produce(spec: OldClientSpec) -> OldClientResult:
    """Produce with one request in flight.

    Raises RuntimeError when the broker answers with an error code.
    """
    register_codecs(kafka_codecs())
    count = records_per_batch(spec.value_bytes, spec.batch_bytes)
    partition = PartitionProduceData(index=0, records=memoryview(_set_of(spec, count)))
    topic = TopicProduceData(name=spec.topic, partition_data=[partition])
    request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
    frame = _frame(apis.PRODUCE, spec.version, request)
    sent = 0
    with RawConnection(spec.bootstrap) as connection:
        meter = Meter(spec.broker_pid)
        for _ in _rounds(spec, meter, count * spec.value_bytes):
            connection.send(frame)
            _check(connection.receive(connection.receive_size()), apis.PRODUCE, spec)
            sent += 1
        return OldClientResult(sent * count, sent * count * spec.value_bytes, meter.read())


def old_fetch(spec: OldClientSpec) -> OldClientResult:
    """Fetch a MiB at a time from ever new offsets, with one request in flight.

    Raises RuntimeError when the broker answers with an error code.
    """
    size = answers = 0
    step = _PARTITION_MAX_BYTES // spec.value_bytes
    with RawConnection(spec.bootstrap) as connection:
        meter = Meter(spec.broker_pid)
        for number in _rounds(spec, meter, _PARTITION_MAX_BYTES):
            wanted = FetchPartition(
                partition=0, fetch_offset=number % 10 * step, partition_max_bytes=_PARTITION_MAX_BYTES
            )
            request = FetchRequest(
                max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=spec.topic, partitions=[wanted])]
            )
            connection.send(_frame(apis.FETCH, spec.version, request))
            answer = connection.receive(connection.receive_size())
            _check(answer, apis.FETCH, spec)
            size += len(answer)
            answers += 1
        if size < answers * _PARTITION_MAX_BYTES // 2:
            raise RuntimeError(f"{answers} fetches of a MiB brought {size} bytes")
        return OldClientResult(0, size, meter.read())


def _rounds(spec: OldClientSpec, meter: Meter, bytes_each: int) -> Iterator[int]:
    number = 0
    while meter.elapsed_s < spec.seconds and not 0 < spec.most_bytes <= number * bytes_each:
        yield number
        number += 1
        if spec.bytes_per_second:
            time.sleep(max(number * bytes_each / spec.bytes_per_second - meter.elapsed_s, 0))


def _set_of(spec: OldClientSpec, count: int) -> bytes:
    values = make_values(spec.value_bytes)
    chosen = [values[number % len(values)] for number in range(count)]
    now_ms = int(time.time() * 1000)
    if spec.version >= BATCHES:
        records = [NewRecord(value) for value in chosen]
        return bytes(build_batch(records, now_ms=now_ms, compression="gzip" if spec.codec else "none"))
    messages = bytearray()
    for offset, value in enumerate(chosen):
        encode_message(messages, Message(offset, now_ms, None, value), MAGIC_V1)
    if not spec.codec:
        return bytes(messages)
    packed = compress(spec.codec, messages, magic=MAGIC_V1)
    wrapper = bytearray()
    encode_message(wrapper, Message(count - 1, now_ms, None, packed), MAGIC_V1, attributes=spec.codec)
    return bytes(wrapper)


def _frame(api: Api, version: int, request: object) -> bytes:
    return b"".join(map(bytes, encode_request(api.key, version, 0, "benchmarks", request)))  # type: ignore[arg-type]


def _check(answer: bytes, api: Api, spec: OldClientSpec) -> None:
    """Raise RuntimeError for the error code of the partition: behind name, count and index."""
    at = _NAMES_SINCE[api.key] + 2 + len(spec.topic) + 4 + 4
    if api is apis.FETCH and spec.version >= BATCHES:
        at += _SESSION_BYTES
    (error_code,) = struct.unpack_from(">h", answer, at)
    if error_code:
        raise RuntimeError(f"{api.name} {spec.version} was answered with error code {error_code}")
