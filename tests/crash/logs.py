"""Looking into the logs of a core."""

from __future__ import annotations

from tests.crash.core import Core
from tests.crash.history import LogKey
from tidelog.kernel.log import UnifiedLog
from tidelog.kernel.records.stored import iter_stored
from tidelog.kernel.seams.storage import PartitionStore
from tidelog.kernel.testing.storage.harness import read_all


def key_of(partition: UnifiedLog) -> LogKey:
    """The topic's id and the partition's number."""
    return partition.topic_id, partition.topic_partition.partition


def partitions_of(core: Core) -> list[UnifiedLog]:
    """All partitions."""
    return [partition.log for topic in core.topics for partition in topic.partitions]


def batches_of(store: PartitionStore) -> list[bytes]:
    """All batches in a log's files, also those below its start."""
    content = read_all(store, store.segments()[0].base_offset)
    return [bytes(batch) for _, batch in iter_stored(memoryview(content))]


def contents_of(core: Core) -> dict[str, bytes]:
    """All bytes of all logs."""
    return {
        str(partition.topic_partition): b"".join(batches_of(partition.store))
        for partition in partitions_of(core)
    }


def ends_of(core: Core) -> dict[str, tuple[int, int]]:
    """Where all logs begin and end."""
    return {
        str(partition.topic_partition): (partition.store.log_start_offset, partition.store.log_end_offset)
        for partition in partitions_of(core)
    }
