"""The messages that codecs are measured with, and the codecs of other packages for the same bytes.

Versions are the newest that all of them have.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import attrs
import kafka.protocol.consumer.fetch as kafka_fetch
import kafka.protocol.consumer.group as kafka_group
import kafka.protocol.metadata.metadata as kafka_metadata
import kafka.protocol.producer.produce as kafka_produce
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tidelog.plugins.protocol_kafka.messages import api, fetch, heartbeat, metadata, offset_commit, produce
from tidelog.plugins.schema import decoder, encode, encoder

if TYPE_CHECKING:
    from collections.abc import Callable

TIDELOG = "tidelog"
KAFKA_PYTHON = "kafka-python"
KIO = "kio"

_TOPIC_ID = bytes(range(16))
_RECORDS = memoryview(bytes(1024))
_MEMBER = "consumer-1-0f1a2b3c-4d5e-6f70-8192-a3b4c5d6e7f8"


@attrs.frozen
class CodecMessage:
    """A message of one version, and kafka-python's class for it."""

    name: str
    title: str
    version: int
    message: Any
    kafka_python: Any

    def decoders(self) -> dict[str, Callable[[], object]]:
        """Return what decodes its bytes, by package: those that are written in Python."""
        data = memoryview(encode(self.message, self.version))
        ours, theirs = decoder(type(self.message), self.version), self.kafka_python[self.version]
        return {TIDELOG: lambda: ours(data, 0), KAFKA_PYTHON: lambda: theirs.decode(data)}

    def encoders(self) -> dict[str, Callable[[], bytes]]:
        """Return what encodes it, by package."""
        data = encode(self.message, self.version)
        theirs = self.kafka_python[self.version].decode(data)
        entity, _ = entity_reader(self._kio_class())(data, 0)
        write = entity_writer(type(entity))
        ours = encoder(type(self.message), self.version)

        def by_tidelog() -> bytes:
            parts: list[Any] = []
            ours(self.message, parts)
            return b"".join(parts)

        def by_kio() -> bytes:
            buffer = io.BytesIO()
            write(buffer, entity)
            return buffer.getvalue()

        return {TIDELOG: by_tidelog, KAFKA_PYTHON: theirs.encode, KIO: by_kio}

    def _kio_class(self) -> Any:
        cls = type(self.message)
        (of_api,) = (each for each in api.APIS.values() if cls in (each.request_class, each.response_class))
        load: Any = load_request_schema if cls is of_api.request_class else load_response_schema
        return load(of_api.key, self.version)


def codec_messages() -> list[CodecMessage]:
    """Return what brokers and clients send most: one topic with few partitions; Metadata with 1,000."""
    return [
        CodecMessage("produce", "Produce, 4 partitions", 13, _produce(4), kafka_produce.ProduceRequest),
        CodecMessage("fetch", "Fetch, 8 partitions", 16, _fetch(8), kafka_fetch.FetchRequest),
        CodecMessage("fetched", "Fetch response, 8 partitions", 16, _fetched(8), kafka_fetch.FetchResponse),
        CodecMessage(
            "metadata",
            "Metadata response, 1,000 partitions",
            12,
            _metadata(10, 100),
            kafka_metadata.MetadataResponse,
        ),
        CodecMessage(
            "offset-commit", "OffsetCommit, 8 partitions", 9, _commit(8), kafka_group.OffsetCommitRequest
        ),
        CodecMessage("heartbeat", "Heartbeat", 4, _heartbeat(), kafka_group.HeartbeatRequest),
    ]


def _produce(partitions: int) -> produce.ProduceRequest:
    data = [produce.PartitionProduceData(index=index, records=_RECORDS) for index in range(partitions)]
    topic = produce.TopicProduceData(topic_id=_TOPIC_ID, partition_data=data)
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _fetch(partitions: int) -> fetch.FetchRequest:
    parts = [
        fetch.FetchPartition(
            partition=index, current_leader_epoch=5, fetch_offset=100_000 + index, partition_max_bytes=1 << 20
        )
        for index in range(partitions)
    ]
    topic = fetch.FetchTopic(topic_id=_TOPIC_ID, partitions=parts)
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=[topic])


def _fetched(partitions: int) -> fetch.FetchResponse:
    parts = [
        fetch.PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=1_234_567,
            last_stable_offset=1_234_567,
            log_start_offset=0,
            records=_RECORDS,
        )
        for index in range(partitions)
    ]
    topic = fetch.FetchableTopicResponse(topic_id=_TOPIC_ID, partitions=parts)
    return fetch.FetchResponse(responses=[topic])


def _metadata(topics: int, partitions: int) -> metadata.MetadataResponse:
    nodes = [[index % 3, (index + 1) % 3, (index + 2) % 3] for index in range(partitions)]
    parts = [
        metadata.MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=replicas[0],
            leader_epoch=4,
            replica_nodes=replicas,
            isr_nodes=replicas,
        )
        for index, replicas in enumerate(nodes)
    ]
    return metadata.MetadataResponse(
        brokers=[
            metadata.MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.com", port=9092)
            for node in range(3)
        ],
        cluster_id="aWQgb2YgYSBjbHVzdGVyIQ",
        controller_id=1,
        topics=[
            metadata.MetadataResponseTopic(
                error_code=0, name=f"topic-{number}", topic_id=_TOPIC_ID, partitions=parts
            )
            for number in range(topics)
        ],
    )


def _commit(partitions: int) -> offset_commit.OffsetCommitRequest:
    parts = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=1_000 + index,
            committed_leader_epoch=3,
            committed_metadata="",
        )
        for index in range(partitions)
    ]
    topic = offset_commit.OffsetCommitRequestTopic(name="orders", partitions=parts)
    return offset_commit.OffsetCommitRequest(
        group_id="billing", generation_id_or_member_epoch=7, member_id=_MEMBER, topics=[topic]
    )


def _heartbeat() -> heartbeat.HeartbeatRequest:
    return heartbeat.HeartbeatRequest(group_id="billing", generation_id=7, member_id=_MEMBER)
