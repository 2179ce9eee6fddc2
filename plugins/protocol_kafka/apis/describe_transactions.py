"""DescribeTransactions (API 65): the state of transactional ids."""

from __future__ import annotations

from collections.abc import Collection, Generator

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransaction,
    TopicData,
)


@in_steps
def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> Generator[None, None, DescribeTransactionsResponse]:
    """Describe each transactional id independently, in steps, and once: it may have many partitions."""
    states: list[DescribeTransactionsTransaction] = []
    for name in dict.fromkeys(request.transactional_ids):
        states.append(_describe(context, name))
        yield
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(context: RequestContext, transactional_id: str) -> DescribeTransactionsTransaction:
    try:
        found = context.broker.coordinator.transactions.describe(transactional_id)
    except BrokerError as error:
        return DescribeTransactionsTransaction(
            error_code=error_code(error), transactional_id=transactional_id
        )
    return DescribeTransactionsTransaction(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_ms,
        producer_id=found.producer.producer_id,
        producer_epoch=found.producer.epoch,
        topics=_topics(found.partitions),
    )


def _topics(partitions: Collection[TopicPartition]) -> list[TopicData]:
    by_topic: dict[str, list[int]] = {}
    for place in sorted(partitions):
        by_topic.setdefault(place.topic, []).append(place.partition)
    return [TopicData(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()]
