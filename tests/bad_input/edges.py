"""Requests with one value each that is at the edge of its type, over all APIs, and batches of that kind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tidelog.plugins.protocol_kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.plugins.protocol_kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.plugins.protocol_kafka.messages.describe_configs import TOPIC_RESOURCE
from tidelog.plugins.protocol_kafka.messages.heartbeat import HeartbeatRequest
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
)
from tidelog.plugins.protocol_kafka.messages.init_producer_id import InitProducerIdRequest
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.plugins.protocol_kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tidelog.plugins.schema.layout import message_layout
from tidelog.plugins.schema.types import STRING, Array, Primitive, Struct

from . import batches
from .groups_requests import Membership, identity, joined, sync
from .raw_client import produce
from .requests import Sent, ask
from .samples import sample, served_versions
from .transactions_table import Producer, begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.plugins.schema.layout import Layout

    from .raw_client import RawClient

WIDEST = (-(1 << 63), -1, 0, (1 << 63) - 1)
ONE_TRANSACTION_BEFORE = 4
_HEADER_FIELDS = {
    "base_offset": 8,
    "leader_epoch": 4,
    "attributes": 2,
    "last_offset_delta": 4,
    "base_timestamp": 8,
    "max_timestamp": 8,
    "producer_id": 8,
    "producer_epoch": 2,
    "base_sequence": 4,
    "record_count": 4,
}
"""Fields of a batch's header, and their bytes."""
_NUMBERS_OF_TOPICS = (
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "index.interval.bytes",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "min.compaction.lag.ms",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
)
_TEXTS = ("", "x" * 0x7FFF, "\N{GRINNING FACE}" * (0x7FFF // 4), "/\0" * 0x3FFF)
_numbers = itertools.count()


class Edge(NamedTuple):
    """A request, and what is odd about it."""

    name: str
    sent: Sent


def edge_requests(client: RawClient) -> Iterator[Edge]:
    """Every integer field of every request in every version at each of its edges."""
    good = _Good(client, begun(client), joined(client))
    for api, version in served_versions():
        for at, place in enumerate(_walk(good.request(api, version), version)):
            for value in _edges(place.kind.size):
                request = good.request(api, version)
                _set(request, version, at, value)
                yield Edge(f"{api.name} v{version} {place.path} = {value}", ask(api, version, request))


def edge_texts(client: RawClient) -> Iterator[Edge]:
    """Every text of every request in every version, empty and as long as it can be; the client's id, too."""
    good = _Good(client, begun(client), joined(client))
    for api, version in served_versions():
        for at, place in enumerate(_walk(good.request(api, version), version, texts=True)):
            for text in _TEXTS:
                request = good.request(api, version)
                _set(request, version, at, text, texts=True)
                named = f"{api.name} v{version} {place.path} = {len(text)} times {text[:1]!r}"
                yield Edge(named, ask(api, version, request))
        for text in _TEXTS:
            sent = ask(api, version, good.request(api, version), client_id=text)
            yield Edge(f"{api.name} v{version} client id = {len(text)} times {text[:1]!r}", sent)


def edge_batches(client: RawClient) -> Iterator[Edge]:
    """Every integer of a batch's header at each of its edges; the checksum is right."""
    whole = batches.batch([b"a", b"b"])
    header, body = parse_header(whole), whole[HEADER_BYTES:]
    for name, size in _HEADER_FIELDS.items():
        for value in _edges(size):
            spoiled = bytes(pack_batch(header._replace(**{name: value}), bytearray(body)))
            yield Edge(f"batch {name} = {value}", ask(apis.PRODUCE, 9, produce(client.topic, spoiled)))


def edge_configs(client: RawClient) -> Iterator[Edge]:
    """Every number of a topic's configuration at its edges, each with a batch and a look-up afterwards."""
    for key in _NUMBERS_OF_TOPICS:
        for value in {*_edges(8), *_edges(4)}:
            change = IncrementalAlterableConfig(name=key, config_operation=SET, value=str(value))
            resource = IncrementalAlterConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=client.topic, configs=[change]
            )
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            name = f"{key} = {value}"
            yield Edge(name, ask(apis.INCREMENTAL_ALTER_CONFIGS, 1, request))
            yield Edge(name, ask(apis.PRODUCE, 9, produce(client.topic, batches.batch([b"a"]))))
            yield Edge(name, ask(apis.LIST_OFFSETS, 5, sample(client, apis.LIST_OFFSETS, 5)))


def _edges(size: int) -> list[int]:
    """The edges of a signed integer of so many bytes."""
    low, high = -(1 << 8 * size - 1), (1 << 8 * size - 1) - 1
    return sorted({max(low, min(high, value)) for value in WIDEST})


@attrs.frozen
class _Good:
    """Good requests. Those of the samples that are about nothing are about something here: a topic, an open
    transaction, a member of a group."""

    client: RawClient
    producer: Producer
    member: Membership

    def request(self, api: apis.Api, version: int) -> Any:
        """A new request."""
        deep: dict[apis.Api, Callable[[int], object]] = {
            apis.CREATE_TOPICS: self._create_topics,
            apis.CREATE_PARTITIONS: self._create_partitions,
            apis.DELETE_RECORDS: self._delete_records,
            apis.INIT_PRODUCER_ID: self._init_producer_id,
            apis.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            apis.ADD_OFFSETS_TO_TXN: self._add_offsets,
            apis.TXN_OFFSET_COMMIT: self._txn_offset_commit,
            apis.WRITE_TXN_MARKERS: self._write_txn_markers,
            apis.HEARTBEAT: lambda version: HeartbeatRequest(**identity(self.member)),
            apis.SYNC_GROUP: lambda version: sync(self.member),
            apis.OFFSET_COMMIT: self._offset_commit,
        }
        return deep[api](version) if api in deep else sample(self.client, api, version)

    def _create_topics(self, version: int) -> object:
        topic = CreatableTopic(
            name=f"edge-{next(_numbers)}", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        return CreateTopicsRequest(topics=[topic], timeout_ms=100)

    def _create_partitions(self, version: int) -> object:
        topic = CreatePartitionsTopic(name=self.client.topic, count=3, assignments=None)
        return CreatePartitionsRequest(topics=[topic], timeout_ms=100, validate_only=True)

    def _delete_records(self, version: int) -> object:
        asked = [DeleteRecordsPartition(partition_index=0, offset=0)]
        topic = DeleteRecordsTopic(name=self.client.topic, partitions=asked)
        return DeleteRecordsRequest(topics=[topic], timeout_ms=100)

    def _init_producer_id(self, version: int) -> object:
        name = f"edge-{next(_numbers)}"
        return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=1000)

    def _add_partitions(self, version: int) -> object:
        topics = [AddPartitionsToTxnTopic(name=self.client.topic, partitions=[0])]
        producer = self.producer
        if version < ONE_TRANSACTION_BEFORE:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=producer.transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=topics,
            )
        one = AddPartitionsToTxnTransaction(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[one])

    def _add_offsets(self, version: int) -> object:
        return AddOffsetsToTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            group_id=self.member.group,
        )

    def _txn_offset_commit(self, version: int) -> object:
        offset = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata="a"
        )
        topic = TxnOffsetCommitRequestTopic(
            name=self.client.topic, topic_id=self.client.topic_id, partitions=[offset]
        )
        return TxnOffsetCommitRequest(
            transactional_id=self.producer.transactional_id,
            group_id="edge-offsets",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            topics=[topic],
        )

    def _write_txn_markers(self, version: int) -> object:
        topic = WritableTxnMarkerTopic(name=self.client.topic, partition_indexes=[0])
        marker = WritableTxnMarker(
            producer_id=1_000_000 + next(_numbers),
            producer_epoch=0,
            transaction_result=True,
            topics=[topic],
            coordinator_epoch=0,
        )
        return WriteTxnMarkersRequest(markers=[marker])

    def _offset_commit(self, version: int) -> object:
        """A member's in every second version, and of a client without a group in the others."""
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="a")
        topic = OffsetCommitRequestTopic(
            name=self.client.topic, topic_id=self.client.topic_id, partitions=[offset]
        )
        if version % 2:
            return OffsetCommitRequest(group_id="edge-offsets", topics=[topic])
        member = self.member
        return OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member,
            topics=[topic],
        )


class _Place(NamedTuple):
    """A value in a request, and how it is given another."""

    path: str
    kind: Primitive[Any]
    assign: Callable[[Any], Any]


def _set(request: Any, version: int, at: int, value: Any, *, texts: bool = False) -> None:
    """Give the value that comes as number `at` another one, in place."""
    next(itertools.islice(_walk(request, version, texts=texts), at, None)).assign(value)


def _walk(request: Any, version: int, *, texts: bool = False) -> Iterator[_Place]:
    """All integers of a request, or all of its texts."""
    for place in _walk_struct(message_layout(type(request), version), request, lambda changed: changed, ""):
        if place.kind is STRING if texts else place.kind.name.startswith("int"):
            yield place


def _walk_struct(layout: Layout, message: Any, replace: Callable[[Any], Any], path: str) -> Iterator[_Place]:
    def setter(name: str) -> Callable[[Any], Any]:
        # A frozen structure gives way to one like it.
        return lambda value: replace(_changed(message, name, value))

    for field in layout.fields + layout.tagged:
        value = getattr(message, field.name)
        yield from _walk_value(layout, field.kind, value, setter(field.name), f"{path}.{field.name}")


def _changed(message: Any, name: str, value: Any) -> Any:
    try:
        setattr(message, name, value)
    except attrs.exceptions.FrozenInstanceError:
        return attrs.evolve(message, **{name: value})
    return message


def _walk_value(
    layout: Layout, kind: object, value: Any, assign: Callable[[Any], Any], path: str
) -> Iterator[_Place]:
    if isinstance(kind, Primitive):
        if value is not None:
            yield _Place(path.removeprefix("."), kind, assign)
    elif isinstance(kind, Struct) and value is not None:
        yield from _walk_struct(layout.nested(kind), value, assign, path)
    elif isinstance(kind, Array):
        elements: list[Any] = value or []
        for index, element in enumerate(elements):
            inner = _element_setter(elements, index)
            yield from _walk_value(layout, kind.element, element, inner, f"{path}[{index}]")


def _element_setter(elements: list[Any], index: int) -> Callable[[Any], Any]:
    def assign(value: Any) -> None:
        elements[index] = value

    return assign
