"""AlterReplicaLogDirs (API 34): move partitions to other log directories of this broker."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import BrokerError, LogDirNotFound, StorageError, UnknownTopicOrPartition
from tidelog.kernel.pace import Pace, each_in_steps, run_in_steps
from tidelog.kernel.seams.storage import TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


async def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Start each replica move independently; DescribeLogDirs reports their progress.

    As in Apache Kafka the last directory is used for a partition that is repeated.
    """
    wanted: dict[TopicPartition, str] = {}
    pace = Pace()
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                wanted[TopicPartition(topic.name, index)] = directory.path
                await pace.turn()
            await pace.turn()
    answers: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for asked, path in wanted.items():
        code = await _move(context, asked, path)
        result = AlterReplicaLogDirPartitionResult(partition_index=asked.partition, error_code=code)
        answers.setdefault(asked.topic, []).append(result)
        await pace.turn()
    return AlterReplicaLogDirsResponse(results=await run_in_steps(each_in_steps(answers.items(), _topic)))


def refuse(
    request: AlterReplicaLogDirsRequest, code: int, text: str | None
) -> Generator[None, None, AlterReplicaLogDirsResponse]:
    """Return the response to a request that is refused as a whole."""
    results: dict[str, dict[int, AlterReplicaLogDirPartitionResult]] = {}
    for topic in (topic for directory in request.dirs for topic in directory.topics):
        of_topic = results.setdefault(topic.name, {})
        for index in topic.partitions:
            of_topic[index] = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
            yield
    return AlterReplicaLogDirsResponse(
        results=[_topic((name, [*of_topic.values()])) for name, of_topic in results.items()]
    )


def _topic(results: tuple[str, list[AlterReplicaLogDirPartitionResult]]) -> AlterReplicaLogDirTopicResult:
    return AlterReplicaLogDirTopicResult(topic_name=results[0], partitions=results[1])


async def _move(context: RequestContext, asked: TopicPartition, path: str) -> int:
    try:
        topic = context.broker.topics.get(asked.topic)
        if not 0 <= asked.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"topic {asked.topic!r} has no partition {asked.partition}")
        admin = context.broker.storage.log_directories
        if admin is None:
            raise LogDirNotFound(f"{path} is no log directory: the storage has none")
        await admin.move(asked, path)
    except BrokerError as error:
        context.warn(f"refusing to move {asked} to {path} for", error)
        return error_code(error)
    except OSError as error:
        refusal = StorageError(str(error))
        context.warn(f"cannot move {asked} to {path} for", refusal)
        return error_code(refusal)
    return 0
