"""DescribeLogDirs (API 35): the log directories of this broker and their partitions."""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence

from tidelog.kernel.pace import ITEMS_PER_STEP, Pace, run_in_steps
from tidelog.kernel.seams.storage import LogDirectoryView, StoredPartition, TopicPartition
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


async def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every directory, also one without a requested partition; an offline one by its error code."""
    asked: set[TopicPartition] | None = None
    pace = Pace()
    if request.topics is not None:
        asked = set()
        for topic in request.topics:
            for partition in topic.partitions:
                asked.add(TopicPartition(topic.topic, partition))
                await pace.turn()
            await pace.turn()
    admin = context.broker.storage.log_directories
    views: Sequence[LogDirectoryView] = [] if admin is None else await admin.describe()
    return DescribeLogDirsResponse(results=[await run_in_steps(_result(view, asked)) for view in views])


def _result(
    view: LogDirectoryView, asked: Container[TopicPartition] | None
) -> Generator[None, None, DescribeLogDirsResult]:
    if view.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=view.path, topics=[])
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, stored in enumerate(view.partitions):
        if asked is None or stored.topic_partition in asked:
            name = stored.topic_partition.topic
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name, partitions=[]))
            topic.partitions.append(_partition(stored))
        if number % ITEMS_PER_STEP == 0:
            yield
    return DescribeLogDirsResult(
        error_code=0,
        log_dir=view.path,
        topics=list(topics.values()),
        total_bytes=view.total_bytes,
        usable_bytes=view.usable_bytes,
    )


def _partition(stored: StoredPartition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=stored.topic_partition.partition,
        partition_size=stored.size_bytes,
        offset_lag=stored.offset_lag,
        is_future_key=stored.is_future,
    )
