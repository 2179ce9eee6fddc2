"""Fetch with next to no client: answers are taken and forgotten, so that the broker is the limit."""

from __future__ import annotations

import struct
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING

import attrs
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.types import TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from benchmarks.procfs import Usage, as_usage

from .meter import Meter
from .raw_connection import RawConnection, encode_frame

if TYPE_CHECKING:
    from collections.abc import Iterator

# While one connection's answer is under way, the broker works on the other's.
_CONNECTIONS = 2
# librdkafka's and the Java client's default for one partition (max.partition.fetch.bytes).
_PARTITION_MAX_BYTES = 1 << 20
_MAX_WAIT = i32Timedelta.parse(timedelta(seconds=10))
_OFFSET = struct.Struct(">q")
_PARTITION = struct.Struct(">ihqqqiii")
_LOOKED_FOR_OFFSET = 0x1122_3344_5566_7788


@attrs.frozen
class RawFetchSpec:
    """Read all partitions of `topic`, `batches` batches of one shape in each, over and over for `seconds`."""

    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    batches: int
    bytes_per_batch: int
    records_per_batch: int
    seconds: float
    ca_file: str = ""


@attrs.frozen
class RawFetchResult:
    """`batches` received whole, on all connections together."""

    batches: int
    usage: Usage = attrs.field(converter=as_usage)


@attrs.define
class _Reader:
    """One connection that reads a partition from the start again whenever it has reached its end."""

    spec: RawFetchSpec
    meter: Meter
    batches: int = 0
    failure: Exception | None = None

    def run(self) -> None:
        try:
            with RawConnection(self.spec.bootstrap, self.spec.ca_file) as connection:
                self._read(connection)
        except Exception as error:
            self.failure = error

    def _read(self, connection: RawConnection) -> None:
        spec = self.spec
        frame = _encode_fetch(spec)
        marks = [_OFFSET.pack(_LOOKED_FOR_OFFSET + partition) for partition in range(spec.partitions)]
        offsets_at = [frame.index(mark) for mark in marks]
        reached = [0] * spec.partitions
        while self.meter.elapsed_s < spec.seconds:
            for offset_at, batch in zip(offsets_at, reached, strict=True):
                _OFFSET.pack_into(frame, offset_at, batch * spec.records_per_batch)
            connection.send(frame)
            before = self.batches
            for partition, length in _receive_records(connection, spec.topic):
                whole = length // spec.bytes_per_batch
                self.batches += whole
                reached[partition] = (reached[partition] + whole) % spec.batches
            if self.batches == before:
                raise RuntimeError(f"a fetch from batches {reached} of {spec.batches} brought no whole batch")


def raw_fetch(spec: RawFetchSpec) -> RawFetchResult:
    """Two connections, each with one request in flight.

    Raises RuntimeError when the broker answers with an error code or without records, OSError when it
    closes a connection.
    """
    meter = Meter(spec.broker_pid)
    readers = [_Reader(spec, meter) for _ in range(_CONNECTIONS)]
    threads = [Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    usage = meter.read()
    for reader in readers:
        if reader.failure is not None:
            raise reader.failure
    return RawFetchResult(sum(reader.batches for reader in readers), usage)


def _encode_fetch(spec: RawFetchSpec) -> bytearray:
    partitions = tuple(
        FetchPartition(
            partition=i32(number),
            fetch_offset=i64(_LOOKED_FOR_OFFSET + number),
            partition_max_bytes=i32(_PARTITION_MAX_BYTES),
        )
        for number in range(spec.partitions)
    )
    request = FetchRequest(
        max_wait=_MAX_WAIT,
        min_bytes=i32(1),
        session_epoch=i32(-1),
        topics=(FetchTopic(topic=TopicName(spec.topic), partitions=partitions),),
        forgotten_topics_data=(),
    )
    return encode_frame(request)


def _receive_records(connection: RawConnection, topic: str) -> Iterator[tuple[int, int]]:
    """Each partition of an answer with the length of its records, which are taken off the socket.

    Version 11: correlation id, throttle time, error, session, count of topics, name, count of partitions;
    for each: index, error, high watermark, last stable offset, log start offset, count of aborted
    transactions, preferred replica, length of records, records.
    """
    head = struct.Struct(f">iihiih{len(topic)}si")
    connection.receive_size()
    *_, partitions = head.unpack(connection.receive(head.size))
    for _ in range(partitions):
        index, error_code, *_, length = _PARTITION.unpack(connection.receive(_PARTITION.size))
        if error_code:
            raise RuntimeError(f"Fetch was answered with error code {error_code}")
        connection.discard(length)
        yield index, length
