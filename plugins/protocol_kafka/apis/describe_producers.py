"""DescribeProducers (API 61): the active producers and open transactions of partitions."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import each_in_steps
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from tidelog.kernel.log.producers import ProducerEntry


@in_steps
def handle(
    context: RequestContext, request: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    """Describe each partition independently, in steps.

    A repeated partition has one result: four bytes of request can be kilobytes of response.
    """
    answers: dict[str, dict[int, PartitionResponse]] = {}
    for topic in request.topics:
        partitions = answers.setdefault(topic.name, {})
        for index in topic.partition_indexes:
            if index not in partitions:
                partitions[index] = yield from _describe(context, topic.name, index)
                yield
        yield
    return DescribeProducersResponse(topics=(yield from each_in_steps(answers.items(), _topic)))


def _topic(described: tuple[str, dict[int, PartitionResponse]]) -> TopicResponse:
    name, partitions = described
    return TopicResponse(name=name, partitions=[*partitions.values()])


def _describe(context: RequestContext, name: str, index: int) -> Generator[None, None, PartitionResponse]:
    try:
        # As in Kafka any replica knows the producers.
        partition = context.broker.replicas.get(name, index)
    except BrokerError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error_code(error),
            error_message=context.error_message(error),
            active_producers=[],
        )
    producers: list[ProducerState] = []
    for producer_id, entry in tuple(partition.log.producers.entries.items()):
        producers.append(_producer(producer_id, entry))
        yield
    return PartitionResponse(partition_index=index, error_code=0, active_producers=producers)


def _producer(producer_id: int, entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
