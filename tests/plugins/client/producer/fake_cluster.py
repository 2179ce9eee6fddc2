"""Brokers in memory that keep logs as Kafka does, check sequence numbers, and fail as a test wants."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from tests.plugins.client.fakes import ALL_VERSIONS, FakeBroker, metadata_message
from tests.plugins.client.manual_driver import Closed, ManualDriver
from tidelog.client import AsyncDelivery, ProducerSettings
from tidelog.kernel.records.batch import BatchHeader, iter_batches
from tidelog.kernel.records.record import iter_records
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.engine import Engine
from tidelog.plugins.client.producer.core import ProducerCore
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdResponse
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataResponse
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceResponse,
    ProduceLeaderIdAndEpoch,
    ProduceNodeEndpoint,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC = "t"
NODES = {1: Address("one", 1), 2: Address("two", 2)}
BATCHES_REMEMBERED = 5
_ENDPOINTS = [
    ProduceNodeEndpoint(node_id=node, host=place.host, port=place.port) for node, place in NODES.items()
]


@attrs.define
class FakePartition:
    """Log of a partition: values, and what it knows of producers."""

    leader: int = 1
    epoch: int = 0
    values: list[bytes] = attrs.field(factory=list[bytes])
    batches: list[int] = attrs.field(factory=list[int])
    producer: tuple[int, int] = (-1, -1)
    next_sequence: int = 0
    recent: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])

    def append(self, header: BatchHeader, batch: memoryview) -> tuple[ErrorCode, int]:
        """The error and the base offset, as Kafka's `ProducerAppendInfo` and `ProducerStateEntry`."""
        if header.producer_id >= 0:
            known = self.producer == (header.producer_id, header.producer_epoch)
            if known:
                for sequence, offset in self.recent[-BATCHES_REMEMBERED:]:
                    if sequence == header.base_sequence:
                        return ErrorCode.NONE, offset
            elif self.producer[0] == header.producer_id and header.producer_epoch < self.producer[1]:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            # As Kafka does, a producer that is not known may begin with any number.
            is_first = self.producer[0] != header.producer_id
            if not is_first and header.base_sequence != (self.next_sequence if known else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            if not known:
                self.recent.clear()
            self.producer = (header.producer_id, header.producer_epoch)
            self.next_sequence = header.base_sequence + header.record_count
            self.recent.append((header.base_sequence, len(self.values)))
        base = len(self.values)
        self.values += [record.value or b"" for record in iter_records(batch, header)]
        self.batches.append(header.record_count)
        return ErrorCode.NONE, base


class FakeCluster:
    """Two brokers; `faults` has one for each Produce request, in the order in which they arrive.

    A fault is "" (none), "drop" (the connection ends before the append), "lose" (after it), "silent" (no
    answer at all), "timeout" (appended and REQUEST_TIMED_OUT), "refuse" (NOT_ENOUGH_REPLICAS), "move" (the
    leader is another broker now), "hint" (as move, and the answer names it), "large" (MESSAGE_TOO_LARGE for
    more than one record), "throttle", "forget" (the producer is unknown).
    """

    def __init__(self, partitions: int = 2, faults: Iterable[str] = (), *, newest_produce: int = 13) -> None:
        self.partitions = [FakePartition() for _ in range(partitions)]
        self.faults = iter(faults)
        self.produced: defaultdict[int, int] = defaultdict(int)
        self.requests: list[ProduceRequest] = []
        self.ids = 0
        self.ranges = {**ALL_VERSIONS, 0: (0, newest_produce)}
        self.driver = ManualDriver({NODES[node]: FakeNode(self, node) for node in NODES})
        self.engine = self.driver.attach(Engine("one:1,two:2", ProducerSettings().client(), self.driver))

    def metadata(self, _request: object) -> MetadataResponse:
        answer = metadata_message({TOPIC: [part.leader for part in self.partitions]}, brokers=NODES)
        for found, part in zip(answer.topics[0].partitions, self.partitions, strict=True):
            found.leader_epoch = part.epoch
        return answer

    def init_producer_id(self, _request: object) -> InitProducerIdResponse:
        self.ids += 1
        return InitProducerIdResponse(error_code=0, producer_id=100 + self.ids, producer_epoch=0)

    def move(self, part: FakePartition) -> None:
        part.leader, part.epoch = 3 - part.leader, part.epoch + 1

    def produce(self, node: int, request: ProduceRequest) -> ProduceResponse:
        self.requests.append(request)
        fault = next(self.faults, "")
        if fault == "drop":
            raise Closed
        results = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[self._produce(node, each, fault) for each in topic.partition_data],
            )
            for topic in request.topic_data
        ]
        if fault == "lose":
            raise Closed
        if fault == "silent":
            raise Silence
        return ProduceResponse(
            responses=results,
            throttle_time_ms=3000 if fault == "throttle" else 0,
            # Versions before 10 have no such field.
            node_endpoints=[] if fault != "hint" else _ENDPOINTS,
        )

    def _produce(self, node: int, data: Any, fault: str) -> PartitionProduceResponse:
        part = self.partitions[data.index]
        code, offset = self.append_data(node, part, data.records, fault)
        hint = ProduceLeaderIdAndEpoch()
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER and fault == "hint":
            hint = ProduceLeaderIdAndEpoch(leader_id=part.leader, leader_epoch=part.epoch)
        return PartitionProduceResponse(
            index=data.index, error_code=code, base_offset=offset, current_leader=hint
        )

    def append_data(
        self, node: int, part: FakePartition, data: memoryview, fault: str
    ) -> tuple[ErrorCode, int]:
        if fault in ("move", "hint"):
            self.move(part)
        if part.leader != node:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
        ((header, batch),) = iter_batches(data)
        if fault == "refuse":
            return ErrorCode.NOT_ENOUGH_REPLICAS, -1
        if fault == "large" and header.record_count > 1:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if fault == "fail":
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1
        if fault == "forget":
            part.producer, part.next_sequence = (-1, -1), 0
            part.recent.clear()
            return ErrorCode.UNKNOWN_PRODUCER_ID, -1
        code, offset = part.append(header, batch)
        return (ErrorCode.REQUEST_TIMED_OUT, -1) if fault == "timeout" and not code else (code, offset)


class Silence(Exception):
    """Raised for a request that is not answered."""


class FakeNode(FakeBroker):
    def __init__(self, cluster: FakeCluster, node: int) -> None:
        super().__init__(
            {
                "Metadata": cluster.metadata,
                "InitProducerId": cluster.init_producer_id,
                "Produce": lambda request: cluster.produce(node, request),
            },
            cluster.ranges,
        )

    def receive(self, data: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", data, 4)
        try:
            answer = super().receive(data)
        except Silence:
            return b""
        if key == 0 and version >= 0 and self.asked[-1].message.acks == 0:
            return b""
        return answer


class FakeEvent:
    """Event of a test that waits for nothing."""

    def __init__(self) -> None:
        self.is_set = False

    def set(self) -> None:
        self.is_set = True


class FakeProducer:
    """A producer core on a fake cluster; it sends at once what it may send."""

    def __init__(self, cluster: FakeCluster, **options: Any) -> None:
        self.cluster = cluster
        self.driver = cluster.driver
        self.calls: list[Any] = []
        self.core: ProducerCore[AsyncDelivery] = ProducerCore(
            cluster.engine, ProducerSettings(**options), FakeEvent, AsyncDelivery, lambda: None
        )

    def send(
        self, value: bytes, partition: int | None = 0, key: bytes | None = None, topic: str = TOPIC
    ) -> AsyncDelivery:
        delivery = self.core.accumulator.append(topic, key, value, partition, None, ())
        if self.core.accumulator.needs_pump:
            self.core.request_pump()
        return delivery

    def settle(self) -> None:
        self.driver.settle()

    def advance(self, seconds: float) -> None:
        """Let the time pass, with all that happens in it."""
        end = self.driver.now + seconds
        while True:
            due = self.driver.settle()
            if due is None or due > end:
                break
            self.driver.now = max(self.driver.now, due)
        self.driver.now = end
        self.driver.settle()

    def run(self, until: Callable[[], bool], limit_s: float = 600.0) -> None:
        self.driver.run(until, limit_s)

    def flush(self) -> None:
        """Wait for everything that was sent."""
        batches = self.core.begin_flush()
        # Records that waited for metadata have moved to other batches by then.
        self.run(
            lambda: all(batch.is_done and all(each.is_done for each in batch.moved_to) for batch in batches)
        )
        self.core.end_flush()
