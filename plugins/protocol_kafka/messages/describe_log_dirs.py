"""DescribeLogDirs (key 35): the log directories of a broker and their partitions (KIP-113)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import DESCRIBE_LOG_DIRS
from tidelog.plugins.schema.declare import (
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
)
from tidelog.plugins.schema.types import INT32


@struct()
class DescribableLogDirTopic:
    """Partitions of a topic that are requested."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@struct(DESCRIBE_LOG_DIRS.versions)
class DescribeLogDirsRequest:
    """Request some partitions, or with None for all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct()
class DescribeLogDirsPartition:
    """A partition's size in bytes.

    With `is_future_key` it is a future replica, and `offset_lag` the number of offsets that it is behind.
    """

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct()
class DescribeLogDirsTopic:
    """A topic's partitions in the directory."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct()
class DescribeLogDirsResult:
    """A directory; the sizes are those of its file system."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(versions="4+", default=-1, ignorable=True)
    usable_bytes: int = int64(versions="4+", default=-1, ignorable=True)
    is_cordoned: bool = boolean(versions="5+", default=False, ignorable=True)


@struct(DESCRIBE_LOG_DIRS.versions)
class DescribeLogDirsResponse:
    """DescribeLogDirs response."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
