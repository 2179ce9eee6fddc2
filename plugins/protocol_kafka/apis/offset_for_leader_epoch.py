"""OffsetForLeaderEpoch (API 23): end offsets of leader epochs, by which consumers detect truncation."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError
from tidelog.plugins.protocol_kafka.apis.steps import in_steps
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from tidelog.kernel.log import UnifiedLog


@in_steps
def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Generator[None, None, OffsetForLeaderEpochResponse]:
    """Look up each partition independently, in steps."""
    answers: list[OffsetForLeaderTopicResult] = []
    for topic in request.topics:
        partitions: list[EpochEndOffset] = []
        for asked in topic.partitions:
            partitions.append(_answer(context, topic.topic, asked))
            yield
        answers.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield
    return OffsetForLeaderEpochResponse(topics=answers)


def _answer(context: RequestContext, name: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = context.broker.replicas.log_of(name, asked.partition, asked.current_leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(error_code=error_code(error), partition=asked.partition)
    epoch, end_offset = _end(log, asked.leader_epoch)
    return EpochEndOffset(error_code=0, partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def _end(log: UnifiedLog, epoch: int) -> tuple[int, int]:
    if log.epochs.latest < epoch <= log.leader_epoch:
        # Nothing was written since that epoch began, so it ends where it begins.
        return epoch, log.log_end_offset
    return log.epochs.end_offset_for(epoch, log.log_end_offset)
