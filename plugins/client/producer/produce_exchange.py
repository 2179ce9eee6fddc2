"""The Produce request that has the batches of several partitions, and what its response says of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.plugins.client.cluster import NO_TOPIC_ID, Address
from tidelog.plugins.client.errors import ErrorResponse
from tidelog.plugins.client.operations.producer_ids import (
    LAST_VERSION_BEFORE_TRANSACTION_V2,
    LAST_VERSION_BY_NAME,
)
from tidelog.plugins.client.operations.sending import send_request
from tidelog.plugins.client.producer.formats import packed
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import PRODUCE
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    from tidelog.plugins.client.cluster import ClusterCache
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.producer.accumulator import PartitionQueue
    from tidelog.plugins.client.producer.delivery import Batch
    from tidelog.plugins.client.producer.sequence_numbers import SequenceNumbers
    from tidelog.plugins.client.producer.settings import ProducerSettings
    from tidelog.plugins.client.steps import Session, Steps

Sent = list[tuple["PartitionQueue", "Batch"]]


class Attempt(NamedTuple):
    """Outcome of sending a batch once.

    Attributes:
        error: None if the log has it
        part: what the response says of it; None without a response
        brokers: addresses of new leaders in the response (KIP-951)
    """

    error: ClientError | None
    part: PartitionProduceResponse | None = None
    brokers: Mapping[int, Address] = {}


class ProduceOutcome(NamedTuple):
    """What a broker has answered: `throttle_ms` to pause, and the outcome of each batch."""

    throttle_ms: int
    attempts: Sequence[tuple[PartitionQueue, Batch, Attempt]]


class ProduceExchange:
    """Makes the requests of one producer."""

    def __init__(self, cluster: ClusterCache, numbers: SequenceNumbers, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._numbers = numbers
        self._settings = settings

    def run(self, session: Session, node: int, sent: Sent) -> Steps[ProduceOutcome | None]:
        """Send batches to a broker; return the outcome of each, None with acks 0."""
        # As of now: what another request learns meanwhile may make the cluster forget a topic.
        ids = {batch.partition.topic: self._cluster.topic_id(batch.partition.topic) for _, batch in sent}
        answer: ProduceResponse | None = yield from send_request(
            session,
            ByVersion(PRODUCE, lambda version: self._request(sent, ids, version)),
            node=node,
            at_most=self._newest_version(ids),
        )
        if answer is None:
            return None
        return ProduceOutcome(answer.throttle_time_ms, list(_attempts(sent, ids, answer)))

    def _newest_version(self, ids: Mapping[str, UUID]) -> int | None:
        if self._settings.transactional_id is not None:
            return LAST_VERSION_BEFORE_TRANSACTION_V2
        return LAST_VERSION_BY_NAME if NO_TOPIC_ID in ids.values() else None

    def _request(self, sent: Sent, ids: Mapping[str, UUID], version: int) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue, batch in sent:
            partition = batch.partition
            topic = topics.get(partition.topic)
            if topic is None:
                topic_id = ids[partition.topic].bytes
                topic = TopicProduceData(name=partition.topic, topic_id=topic_id, partition_data=[])
                topics[partition.topic] = topic
            if batch.encoded is None:
                raise AssertionError("a batch is encoded before it is sent")
            data = packed(
                batch.encoded,
                self._numbers.stamp(queue, batch),
                batch.records,
                version=version,
                level=self._settings.compression_level,
                where=f"the leader of {partition}",
            )
            topic.partition_data.append(
                PartitionProduceData(index=partition.partition, records=memoryview(data))
            )
        return ProduceRequest(
            transactional_id=self._settings.transactional_id,
            acks=self._settings.required_acks,
            timeout_ms=int(self._settings.request_timeout_ms),
            topic_data=list(topics.values()),
        )


def _attempts(
    sent: Sent, ids: Mapping[str, UUID], answer: ProduceResponse
) -> Iterator[tuple[PartitionQueue, Batch, Attempt]]:
    """Iterate over the batches of a request with the outcome of each."""
    names = {topic_id.bytes: name for name, topic_id in ids.items()}
    parts: dict[tuple[str, int], PartitionProduceResponse] = {}
    for topic in answer.responses:
        name = topic.name or names.get(bytes(topic.topic_id), "")
        for part in topic.partition_responses:
            parts[name, part.index] = part
    brokers = {each.node_id: Address(each.host, each.port) for each in answer.node_endpoints}
    for queue, batch in sent:
        result = parts.get((batch.partition.topic, batch.partition.partition))
        if result is None:
            yield queue, batch, Attempt(ErrorResponse.missing(str(batch.partition)))
        elif not result.error_code:
            yield queue, batch, Attempt(None, result)
        else:
            code, where = ErrorCode.of(result.error_code), str(batch.partition)
            error = ErrorResponse(code, where, result.error_message)
            yield queue, batch, Attempt(error, result, brokers)
