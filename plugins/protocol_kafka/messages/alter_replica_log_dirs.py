"""AlterReplicaLogDirs (key 34): move partitions between the log directories of a broker (KIP-113)."""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.messages.api import ALTER_REPLICA_LOG_DIRS
from tidelog.plugins.schema.declare import array, int16, int32, string, struct
from tidelog.plugins.schema.types import INT32


@struct()
class AlterReplicaLogDirTopic:
    """Partitions of a topic to move."""

    name: str = string()
    partitions: list[int] = array(INT32)


@struct()
class AlterReplicaLogDir:
    """A directory and the partitions to move there."""

    path: str = string()
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@struct(ALTER_REPLICA_LOG_DIRS.versions)
class AlterReplicaLogDirsRequest:
    """Move partitions to directories."""

    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@struct()
class AlterReplicaLogDirPartitionResult:
    """Result for one partition: whether the move was started."""

    partition_index: int = int32()
    error_code: int = int16()


@struct()
class AlterReplicaLogDirTopicResult:
    """A topic's partitions."""

    topic_name: str = string()
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult)


@struct(ALTER_REPLICA_LOG_DIRS.versions)
class AlterReplicaLogDirsResponse:
    """AlterReplicaLogDirs response."""

    throttle_time_ms: int = int32(default=0)
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
