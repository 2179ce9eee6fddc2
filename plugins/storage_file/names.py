"""Names of files and directories, as Apache Kafka spells them.

<topic>-<partition>/                    one partition
    00000000000000000000.log            a segment: 20 digits of its base offset
    00000000000000000000.index          its offset index
    00000000000000000000.timeindex      its time index
    00000000000000000000.txnindex       its aborted transactions, if there are any
    00000000000000000000.log.deleted    a file that waits for its removal
    00000000000000000000.log.….next.deleted     a file of the next segment, see `segments/creation.py`
<topic>-<partition>.<32 hex digits>-delete/     a partition that waits for its removal
<topic>-<partition>.<32 hex digits>-stray/      a partition of no topic
<topic>-<partition>.<32 hex digits>-future/     a future replica (KIP-113)
"""

from __future__ import annotations

import uuid

from tidelog.kernel.errors import InvalidTopic
from tidelog.kernel.seams.storage import TopicPartition

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

SIDE_FILES = frozenset({"leader-epoch-checkpoint"})
SIDE_FILE_SUFFIXES = (".snapshot",)
PARTITION_METADATA = "partition.metadata"
DELETE_MARK = "-delete"
STRAY_MARK = "-stray"
FUTURE_MARK = "-future"

_OFFSET_DIGITS = 20
_MAX_NAME_BYTES = 255


def segment_file(base_offset: int, suffix: str) -> str:
    """Return the name of one of a segment's files."""
    return f"{base_offset:020d}{suffix}"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in the name of a segment's file, None for other names."""
    digits = name[:_OFFSET_DIGITS]
    # `isdigit` is also true of digits of other scripts, which `int` takes, too.
    return int(digits) if len(digits) == _OFFSET_DIGITS and digits.isascii() and digits.isdigit() else None


def is_side_file(name: str) -> bool:
    """Return whether a file of a partition's directory is one that the kernel keeps there."""
    return name in SIDE_FILES or name.endswith(SIDE_FILE_SUFFIXES)


def partition_directory(topic_partition: TopicPartition) -> str:
    """Return the name of a partition's directory."""
    return f"{topic_partition.topic}-{topic_partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the partition of a directory by its name, None when it is none or waits for its removal."""
    topic, dash, number = name.rpartition("-")
    if not (topic and dash and number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def delete_directory(topic_partition: TopicPartition) -> str:
    """Return a new name for a directory that is to be deleted; the topic is cut when it would be too long."""
    return _marked(topic_partition, DELETE_MARK)


def stray_directory(topic_partition: TopicPartition) -> str:
    """Return a new name for a directory that belongs to no topic; the topic is cut as for a deletion."""
    return _marked(topic_partition, STRAY_MARK)


def _marked(topic_partition: TopicPartition, mark: str) -> str:
    suffix = f"-{topic_partition.partition}.{uuid.uuid4().hex}{mark}"
    return topic_partition.topic[: _MAX_NAME_BYTES - len(suffix)] + suffix


def future_directory(topic_partition: TopicPartition) -> str:
    """Return a new name for the directory of a future replica.

    Raises:
        InvalidTopic: the topic's name is too long to be read back from it.
    """
    name = f"{topic_partition}.{uuid.uuid4().hex}{FUTURE_MARK}"
    if len(name) > _MAX_NAME_BYTES:
        raise InvalidTopic(f"the name of topic {topic_partition.topic!r} is too long to move its partitions")
    return name


def parse_future_directory(name: str) -> TopicPartition | None:
    """Return the partition of a future replica by its directory's name, None for other names."""
    if not name.endswith(FUTURE_MARK):
        return None
    partition, dot, _ = name.removesuffix(FUTURE_MARK).rpartition(".")
    return parse_partition_directory(partition) if dot else None
