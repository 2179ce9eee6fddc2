"""AlterReplicaLogDirs (API 34): move partitions to other log directories of this broker."""

from __future__ import annotations

from tidelog.kernel.errors import BrokerError, StorageError, UnknownTopicOrPartition
from tidelog.kernel.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Begin each move by itself; how far they are, DescribeLogDirs tells."""
    answers: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            answer = answers.setdefault(
                topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[])
            )
            for index in topic.partitions:
                code = await _move(context, TopicPartition(topic.name, index), directory.path)
                result = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                answer.partitions.append(result)
    return AlterReplicaLogDirsResponse(results=list(answers.values()))


async def _move(context: RequestContext, asked: TopicPartition, path: str) -> int:
    try:
        topic = context.broker.topics.get(asked.topic)
        if not 0 <= asked.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"topic {asked.topic!r} has no partition {asked.partition}")
        await context.broker.storage.move_partition(asked, path)
    except BrokerError as error:
        context.warn(f"refusing to move {asked} to {path} for", error)
        return error_code(error)
    except OSError as error:
        refusal = StorageError(str(error))
        context.warn(f"cannot move {asked} to {path} for", refusal)
        return error_code(refusal)
    return 0
