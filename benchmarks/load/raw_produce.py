"""Produce with next to no client: one encoded request, replayed, so that the broker is the limit."""

from __future__ import annotations

from datetime import timedelta

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

# What an idempotent librdkafka or Java producer keeps in flight at most.
_IN_FLIGHT = 5
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))


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


@attrs.frozen
class RawProduceResult:
    """`batches` acknowledged, each of `records_per_batch` records and `bytes_per_batch` bytes in all."""

    batches: int
    records_per_batch: int
    bytes_per_batch: int
    usage: Usage = attrs.field(converter=as_usage)


@attrs.frozen
class _Replay:
    """A Produce request that changes its sequence and nothing else."""

    frame: bytearray
    patcher: SequencePatcher
    records: int
    batch_bytes: int
    error_at: int
    """Where in an answer, behind its length, the partition's error code is."""


def raw_produce(spec: RawProduceSpec) -> RawProduceResult:
    """Keep five requests in flight until time or bytes are used up.

    Raises RuntimeError when the broker answers with an error code, OSError when it closes the connection.
    """
    with RawConnection(spec.bootstrap) as connection:
        replays = _prepare(connection, spec)
        records, error_at = replays[0].records, replays[0].error_at
        most_rounds = max(1, spec.most_bytes // (spec.value_bytes * records * spec.partitions))
        meter = Meter(spec.broker_pid)
        rounds = in_flight = 0
        while rounds < most_rounds and meter.elapsed_s < spec.seconds:
            for replay in replays:
                if in_flight == _IN_FLIGHT:
                    _receive_acknowledgement(connection, error_at)
                    in_flight -= 1
                replay.patcher.patch(rounds * records)
                connection.send(replay.frame)
                in_flight += 1
            rounds += 1
        for _ in range(in_flight):
            _receive_acknowledgement(connection, error_at)
        return RawProduceResult(rounds * spec.partitions, records, replays[0].batch_bytes, meter.read())


def _prepare(connection: RawConnection, spec: RawProduceSpec) -> list[_Replay]:
    producer = connection.call(
        InitProducerIdRequest(transactional_id=None, transaction_timeout=_TIMEOUT), InitProducerIdResponse
    )
    if producer.error_code:
        raise RuntimeError(f"InitProducerId was answered with {producer.error_code!r}")
    count = records_per_batch(spec.value_bytes, spec.batch_bytes)
    values = make_values(spec.value_bytes)
    batch = encode_batch(
        [values[n % len(values)] for n in range(count)], producer.producer_id, producer.producer_epoch
    )
    return [_replay(spec.topic, partition, batch, count) for partition in range(spec.partitions)]


def _replay(topic: str, index: int, batch: bytes, count: int) -> _Replay:
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
    return _Replay(frame, patcher, count, len(batch), error_at)


def _receive_acknowledgement(connection: RawConnection, error_at: int) -> None:
    answer = connection.receive(connection.receive_size())
    error_code = int.from_bytes(answer[error_at : error_at + 2], "big", signed=True)
    if error_code:
        raise RuntimeError(f"Produce was answered with error code {error_code}")
