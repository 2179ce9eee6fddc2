"""AddPartitionsToTxn (API 24): what a producer is about to write to becomes part of its transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tidelog.kernel.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
)
from tidelog.kernel.errors import BrokerError, OperationNotAttempted, UnknownTopicOrPartition
from tidelog.kernel.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.handlers.fencing import code_for_producer
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

MANY_TRANSACTIONS_SINCE = 4
FENCED_SINCE = 2

Outcomes: TypeAlias = Mapping[TopicPartition, BrokerError | None]


async def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """All partitions of a transaction or none; one transaction in old versions, several from version 4 on."""
    version = context.api_version
    if version >= MANY_TRANSACTIONS_SINCE:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=asked.transactional_id,
                topic_results=_results(asked.topics, await _outcomes(context, asked, version), version),
            )
            for asked in request.transactions
        ]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    outcomes = await _outcomes(context, asked, version)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(asked.topics, outcomes, version))


async def _outcomes(context: RequestContext, asked: AddPartitionsToTxnTransaction, version: int) -> Outcomes:
    places = [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions]
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
    missing = {
        place: UnknownTopicOrPartition(f"{place} does not exist") for place in _missing(context, places)
    }
    if missing:
        rest = OperationNotAttempted("another partition of the request does not exist")
        return {place: missing.get(place, rest) for place in places}
    try:
        transactions = context.broker.coordinator.transactions
        if asked.verify_only:
            return transactions.verify_partitions(asked.transactional_id, producer, places)
        by = EPOCH_PER_TRANSACTION if version >= MANY_TRANSACTIONS_SINCE else FIRST_TRANSACTION_VERSION
        await transactions.add_partitions(asked.transactional_id, producer, places, version=by)
    except BrokerError as error:
        context.warn(f"adding to the transaction of {asked.transactional_id!r} is refused for", error)
        return dict.fromkeys(places, error)
    return dict.fromkeys(places)


def _missing(context: RequestContext, places: Sequence[TopicPartition]) -> list[TopicPartition]:
    topics = context.broker.topics
    missing: list[TopicPartition] = []
    for place in places:
        topic = topics.find(place.topic)
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            missing.append(place)
    return missing


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], outcomes: Outcomes, version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=_code(outcomes[TopicPartition(topic.name, index)], version),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _code(error: BrokerError | None, version: int) -> int:
    return 0 if error is None else code_for_producer(error, fenced=version >= FENCED_SINCE)
