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


class ProduceExchange:
    """Makes the requests of one producer."""

    def __init__(self, cluster: ClusterCache, numbers: SequenceNumbers, settings: ProducerSettings) -> None:
        self._cluster = cluster
        self._numbers = numbers
        self._settings = settings

    def run(self, session: Session, node: int, sent: Sent) -> Steps[ProduceResponse | None]:
        """Send batches to a broker; with acks 0 there is no response."""
        answer: ProduceResponse | None = yield from send_request(
            session,
            ByVersion(PRODUCE, lambda version: self._request(sent, version)),
            node=node,
            at_most=self._newest_version(sent),
        )
        return answer

    def attempts(
        self, sent: Sent, answer: ProduceResponse
    ) -> Iterator[tuple[PartitionQueue, Batch, Attempt]]:
        """Iterate over the batches of a request with the outcome of each."""
        names = {
            self._cluster.topic_id(batch.partition.topic).bytes: batch.partition.topic for _, batch in sent
        }
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

    def _newest_version(self, sent: Sequence[tuple[PartitionQueue, Batch]]) -> int | None:
        if self._settings.transactional_id is not None:
            return LAST_VERSION_BEFORE_TRANSACTION_V2
        by_name = any(self._cluster.topic_id(batch.partition.topic) == NO_TOPIC_ID for _, batch in sent)
        return LAST_VERSION_BY_NAME if by_name else None

    def _request(self, sent: Sent, version: int) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue, batch in sent:
            partition = batch.partition
            topic = topics.get(partition.topic)
            if topic is None:
                topic_id = self._cluster.topic_id(partition.topic).bytes
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
