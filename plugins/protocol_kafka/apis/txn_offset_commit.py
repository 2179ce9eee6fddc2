"""TxnOffsetCommit (API 28): commit offsets of a group in a transaction."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidGroupId,
    InvalidTransactionState,
    ProducerFenced,
    StaleMemberEpoch,
    TransactionAbortable,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.coordination.offsets import OffsetCommit, OffsetToCommit
from tidelog.kernel.seams.coordination.transactions import EPOCH_PER_TRANSACTION, ProducerIdentity
from tidelog.plugins.protocol_kafka.apis.common_fields import find_topic
from tidelog.plugins.protocol_kafka.apis.slices import (
    has_more,
    merge,
    slices,
)
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_SINCE = 2
ABORTABLE_SINCE = 4
IMPLICIT_SINCE = 5
TOPIC_IDS_SINCE = 6
GROUP_ERRORS_SINCE = 6
COMMITTED_AT_ONCE = 100
"""Most offsets in one batch; several batches are still atomic, by the end of the transaction."""


async def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Commit pending offsets; from version 5 on this also adds the group's offsets to the transaction.

    Very many offsets are committed in several batches, and other requests are served in between.
    """
    if not has_more(request.topics, "partitions", COMMITTED_AT_ONCE):
        return await _commit_at_once(context, request)
    answers: dict[int, TxnOffsetCommitResponseTopic] = {}
    pace = Pace()
    for some in slices(request.topics, "partitions", COMMITTED_AT_ONCE):
        part = copy.copy(request)
        part.topics = some.topics
        merge(answers, some.places, (await _commit_at_once(context, part)).topics, "partitions")
        await pace.turn()
    return TxnOffsetCommitResponse(topics=[*answers.values()])


async def _commit_at_once(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    version = context.api_version
    offsets, refused = _offsets(context, request.topics, version)
    errors: dict[tuple[int, int], BrokerError | None] = dict(refused)
    if offsets:
        try:
            errors |= await _commit(context, request, offsets, version)
        except BrokerError as error:
            context.warn(f"offsets of group {request.group_id!r} in a transaction are refused for", error)
            errors |= dict.fromkeys(offsets, error)
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=_code(errors[at, place], version)
                )
                for place, partition in enumerate(topic.partitions)
            ],
        )
        for at, topic in enumerate(request.topics)
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _offsets(
    context: RequestContext, topics: Sequence[TxnOffsetCommitRequestTopic], version: int
) -> tuple[dict[tuple[int, int], OffsetToCommit], dict[tuple[int, int], BrokerError]]:
    """Return the offsets to commit and the errors of the others, by index in the request."""
    offsets: dict[tuple[int, int], OffsetToCommit] = {}
    refused: dict[tuple[int, int], BrokerError] = {}
    for at, topic in enumerate(topics):
        try:
            found = find_topic(
                context.broker.topics, topic.name, topic.topic_id, by_id=version >= TOPIC_IDS_SINCE
            )
        except BrokerError as error:
            refused |= {(at, place): error for place in range(len(topic.partitions))}
            continue
        for place, partition in enumerate(topic.partitions):
            offsets[at, place] = OffsetToCommit(
                topic=found.name,
                partition=partition.partition_index,
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.committed_metadata,
                topic_id=found.topic_id.bytes,
            )
    return offsets, refused


async def _commit(
    context: RequestContext,
    request: TxnOffsetCommitRequest,
    offsets: dict[tuple[int, int], OffsetToCommit],
    version: int,
) -> dict[tuple[int, int], BrokerError | None]:
    coordinator = context.broker.coordinator
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    name, group_id = request.transactional_id, request.group_id
    if not group_id:
        raise InvalidGroupId("a group without an id has no offsets")
    if version >= IMPLICIT_SINCE:
        await coordinator.prepare_groups()
        await coordinator.transactions.add_offsets(name, producer, group_id, version=EPOCH_PER_TRANSACTION)
    # No trio checkpoint lies between this and the pending offsets: the transaction cannot end in between, and
    # leave them behind.
    coordinator.transactions.verify_offsets(name, producer, group_id)
    commit = OffsetCommit(
        group_id=group_id,
        offsets=tuple(offsets.values()),
        generation=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        is_transactional=True,
    )
    outcome = coordinator.offsets.commit_pending(commit, *producer)
    if outcome.wait is not None:
        await outcome.wait()
    return dict(zip(offsets, outcome.errors, strict=True))


def _code(error: BrokerError | None, version: int) -> int:
    """Return the error code that the client's version supports."""
    if error is None:
        return 0
    if isinstance(error, ProducerFenced):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if isinstance(error, (StaleMemberEpoch, GroupIdNotFound)) and version < GROUP_ERRORS_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    if isinstance(error, CoordinatorLoadInProgress) and version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if isinstance(error, TransactionAbortable) and version < ABORTABLE_SINCE:
        return error_code(InvalidTransactionState(str(error)))
    return error_code(error)
