"""OffsetCommit (API 8): commit offsets of a group."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.coordination.offsets import CommitOutcome, OffsetCommit, OffsetToCommit
from tidelog.plugins.protocol_kafka.apis.common_fields import find_topic
from tidelog.plugins.protocol_kafka.apis.slices import (
    PARTITIONS_PER_SLICE,
    has_more,
    merge,
    slices,
)
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topics


TOPIC_IDS_SINCE = 10
EPOCHS_SINCE = 9


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    """Commit offsets; they are in the log when this returns.

    Very many offsets are committed in several batches, and other requests are served in between.
    """
    if has_more(request.topics, "partitions", PARTITIONS_PER_SLICE):
        return _commit_in_slices(context, request)
    return _commit_at_once(context, request)


async def _commit_in_slices(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    answers: dict[int, OffsetCommitResponseTopic] = {}
    pace = Pace()
    for some in slices(request.topics, "partitions"):
        part = copy.copy(request)
        part.topics = some.topics
        answer = _commit_at_once(context, part)
        if not isinstance(answer, OffsetCommitResponse):
            answer = await answer
        merge(answers, some.places, answer.topics, "partitions")
        await pace.turn()
    return OffsetCommitResponse(topics=[*answers.values()])


def _commit_at_once(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    refused: dict[int, BrokerError] = {}
    commit = _commit(context, request, refused)
    try:
        outcome = _send(context, commit)
    except BrokerError as error:
        return _answer(request, refused, iter([error] * len(commit.offsets)))
    if outcome.wait is not None:
        return _answer_when_durable(request, refused, outcome)
    return _answer(request, refused, iter(outcome.errors))


def _send(context: RequestContext, commit: OffsetCommit) -> CommitOutcome:
    offsets = context.broker.coordinator.offsets
    return offsets.commit(commit) if commit.offsets else CommitOutcome(())


def _commit(
    context: RequestContext, request: OffsetCommitRequest, refused: dict[int, BrokerError]
) -> OffsetCommit:
    """Return the commit of all known topics; the indexes of the others are added to `refused`."""
    version, topics = context.api_version, context.broker.topics
    offsets: list[OffsetToCommit] = []
    for place, topic in enumerate(request.topics):
        try:
            name, topic_id = _name(topics, topic, version)
        except BrokerError as error:
            refused[place] = error
            continue
        for partition in topic.partitions:
            offsets.append(
                OffsetToCommit(
                    name,
                    partition.partition_index,
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    partition.committed_metadata,
                    topic_id,
                    partition.commit_timestamp,
                )
            )
    return OffsetCommit(
        request.group_id,
        offsets,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        request.retention_time_ms,
        knows_epochs=version >= EPOCHS_SINCE,
    )


def _name(topics: Topics, topic: OffsetCommitRequestTopic, version: int) -> tuple[str, bytes | None]:
    if version < TOPIC_IDS_SINCE:
        return topic.name, None
    return find_topic(topics, "", topic.topic_id, by_id=True).name, topic.topic_id


async def _answer_when_durable(
    request: OffsetCommitRequest, refused: dict[int, BrokerError], outcome: CommitOutcome
) -> OffsetCommitResponse:
    errors = outcome.errors
    if outcome.wait is not None:
        try:
            await outcome.wait()
        except BrokerError as error:
            # What was refused before the write keeps its own error.
            errors = [refusal or error for refusal in errors]
    return _answer(request, refused, iter(errors))


def _answer(
    request: OffsetCommitRequest, refused: dict[int, BrokerError], errors: Iterator[BrokerError | None]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_code(refused[place] if place in refused else next(errors)),
                    )
                    for partition in topic.partitions
                ],
            )
            for place, topic in enumerate(request.topics)
        ]
    )


def _code(error: BrokerError | None) -> int:
    return 0 if error is None else error_code(error)
