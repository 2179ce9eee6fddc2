"""Produce with next to no client: one encoded request, replayed, so that the broker is the limit."""

from __future__ import annotations

import functools
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import attrs
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage

from .meter import Meter
from .raw_batch import SequencePatcher, encode_batch, records_per_batch
from .raw_connection import RawConnection, encode_frame

if TYPE_CHECKING:
    from collections.abc import Iterable

# What an idempotent librdkafka or Java producer keeps in flight at most.
_IN_FLIGHT = 5
_PATIENCE_S, _RETRY_PAUSE_S = 30.0, 0.1
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))

_values = functools.cache(make_values)


@attrs.frozen
class RawProduceSpec:
    """Batches of `value_bytes` records, for `seconds` or until `most_bytes` of values.

    The partitions take turns, and all of them get the same number of batches.
    """

    bootstrap: str
    broker_pid: int
    topic: str
    partitions: int
    value_bytes: int
    batch_bytes: int
    seconds: float
    most_bytes: int
    ca_file: str = ""


@attrs.frozen
class RawProduceResult:
    """`batches` acknowledged, each of `records_per_batch` records and `bytes_per_batch` bytes in all."""

    batches: int
    records_per_batch: int
    bytes_per_batch: int
    usage: Usage = attrs.field(converter=as_usage)


@attrs.frozen
class Replay:
    """A Produce request that changes its sequence and nothing else."""

    frame: bytearray
    patcher: SequencePatcher
    records: int
    batch_bytes: int
    error_at: int
    """Where in an answer, behind its length, the partition's error code is."""

    def frame_after(self, sent: int) -> bytearray:
        """The request that follows `sent` others; it is valid until the next call."""
        self.patcher.patch(sent * self.records)
        return self.frame

    def error_code(self, answer: bytes) -> int:
        """The error code of an answer, which is without its length."""
        return int.from_bytes(answer[self.error_at : self.error_at + 2], "big", signed=True)

    def check(self, answer: bytes) -> None:
        """Raise RuntimeError unless an answer, without its length, acknowledges."""
        error_code = self.error_code(answer)
        if error_code:
            raise RuntimeError(f"Produce was answered with error code {error_code}")


def raw_produce(spec: RawProduceSpec) -> RawProduceResult:
    """Keep five requests in flight until time or bytes are used up.

    Raises RuntimeError when the broker answers with an error code, OSError when it closes the connection.
    """
    with RawConnection(spec.bootstrap, spec.ca_file) as connection:
        replays = prepare_replays(
            connection, spec.topic, range(spec.partitions), spec.value_bytes, spec.batch_bytes
        )
        records = replays[0].records
        most_rounds = max(1, spec.most_bytes // (spec.value_bytes * records * spec.partitions))
        meter = Meter(spec.broker_pid)
        rounds = in_flight = 0
        while rounds < most_rounds and meter.elapsed_s < spec.seconds:
            for replay in replays:
                if in_flight == _IN_FLIGHT:
                    replay.check(connection.receive(connection.receive_size()))
                    in_flight -= 1
                connection.send(replay.frame_after(rounds))
                in_flight += 1
            rounds += 1
        for _ in range(in_flight):
            replays[0].check(connection.receive(connection.receive_size()))
        return RawProduceResult(rounds * spec.partitions, records, replays[0].batch_bytes, meter.read())


def prepare_replays(
    connection: RawConnection, topic: str, partitions: Iterable[int], value_bytes: int, batch_bytes: int
) -> list[Replay]:
    """A request for each of the partitions, with batches of one new idempotent producer.

    Raises RuntimeError when the broker gives no producer id.
    """
    producer = _new_producer(connection)
    count = records_per_batch(value_bytes, batch_bytes)
    values = _values(value_bytes)
    batch = encode_batch(
        [values[n % len(values)] for n in range(count)], producer.producer_id, producer.producer_epoch
    )
    return [_replay(topic, partition, batch, count) for partition in partitions]


def _new_producer(connection: RawConnection) -> InitProducerIdResponse:
    """A node that has just started may have no id to give: that passes, and is waited for."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout=_TIMEOUT)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer: InitProducerIdResponse = connection.call(request, InitProducerIdResponse)
        if not answer.error_code:
            return answer
        if time.monotonic() > deadline:
            raise RuntimeError(f"InitProducerId was answered with {answer.error_code!r}")
        time.sleep(_RETRY_PAUSE_S)


def _replay(topic: str, index: int, batch: bytes, count: int) -> Replay:
    partition = PartitionProduceData(index=i32(index), records=Records(batch))
    request = ProduceRequest(
        acks=i16(-1),
        timeout=_TIMEOUT,
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(partition,)),),
    )
    frame = encode_frame(request)
    # Correlation id and tags; count of topics, name and its length; count of partitions, index.
    error_at = (4 + 1) + (1 + 1 + len(topic)) + (1 + 4)
    patcher = SequencePatcher(frame, frame.index(batch), len(batch))
    return Replay(frame, patcher, count, len(batch), error_at)
