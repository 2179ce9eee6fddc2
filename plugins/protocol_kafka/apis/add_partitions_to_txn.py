"""AddPartitionsToTxn (API 24): add partitions to a producer's transaction before it writes to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from tidelog.kernel.errors import BrokerError, OperationNotAttempted, UnknownTopicOrPartition
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.seams.coordination.transactions import (
    EPOCH_PER_TRANSACTION,
    FIRST_TRANSACTION_VERSION,
    ProducerIdentity,
)
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import code_for_producer
from tidelog.plugins.protocol_kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

MANY_TRANSACTIONS_SINCE = 4
FENCED_SINCE = 2

Outcomes: TypeAlias = Mapping[TopicPartition, BrokerError | None]


async def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
    """Add all partitions of a transaction or none; several transactions from version 4 on."""
    version = context.api_version
    if version >= MANY_TRANSACTIONS_SINCE:
        pace = Pace()
        results: list[AddPartitionsToTxnResult] = []
        for asked in request.transactions:
            outcomes = await _outcomes(context, asked, version, pace)
            results.append(
                AddPartitionsToTxnResult(
                    transactional_id=asked.transactional_id,
                    topic_results=await _results(outcomes, version, pace),
                )
            )
            await pace.turn()
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    asked = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    pace = Pace()
    outcomes = await _outcomes(context, asked, version, pace)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _results(outcomes, version, pace))


async def _outcomes(
    context: RequestContext, asked: AddPartitionsToTxnTransaction, version: int, pace: Pace
) -> Outcomes:
    """Return the result of each partition; one that is repeated has one result."""
    known: dict[TopicPartition, bool] = {}
    for topic in asked.topics:
        for index in topic.partitions:
            place = TopicPartition(topic.name, index)
            known[place] = _is_there(context, place)
            await pace.turn()
        await pace.turn()
    if not all(known.values()):
        missing = UnknownTopicOrPartition("the partition does not exist")
        rest = OperationNotAttempted("another partition of the request does not exist")
        return {place: rest if there else missing for place, there in known.items()}
    places = [*known]
    producer = ProducerIdentity(asked.producer_id, asked.producer_epoch)
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


def _is_there(context: RequestContext, place: TopicPartition) -> bool:
    topic = context.broker.topics.find(place.topic)
    return topic is not None and 0 <= place.partition < len(topic.partitions)


async def _results(outcomes: Outcomes, version: int, pace: Pace) -> list[AddPartitionsToTxnTopicResult]:
    results: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for place, error in outcomes.items():
        results.setdefault(place.topic, []).append(
            AddPartitionsToTxnPartitionResult(
                partition_index=place.partition, partition_error_code=_code(error, version)
            )
        )
        await pace.turn()
    return await run_in_steps(each_in_steps(results.items(), _topic_result))


def _topic_result(
    results: tuple[str, list[AddPartitionsToTxnPartitionResult]],
) -> AddPartitionsToTxnTopicResult:
    name, partitions = results
    return AddPartitionsToTxnTopicResult(name=name, results_by_partition=partitions)


def _code(error: BrokerError | None, version: int) -> int:
    return 0 if error is None else code_for_producer(error, fenced=version >= FENCED_SINCE)
