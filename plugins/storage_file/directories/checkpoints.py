"""What a stop leaves in a log directory: offset checkpoints and the clean shutdown file, as text.

    0                       version
    2                       number of entries
    orders 0 105823         topic, partition, offset
    orders 1 105640

`.kafka_cleanshutdown` is removed as soon as it is read, so that a crash while logs are opened counts as an
unclean stop. By the broker epoch a controller recognizes a broker that lost nothing since its last
registration:

    {"version":0,"brokerEpoch":13}

Sources: Apache Kafka's `OffsetCheckpointFile` and `CleanShutdownFileHandler`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from tidelog.kernel import disk
from tidelog.kernel.seams.storage import TopicPartition

_log = logging.getLogger(__name__)

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
_COMPACTION_CHECKPOINT = "cleaner-offset-checkpoint"
_REWRITE_CHECKPOINT = re.compile(r"(?P<policy>.+)-rewrite-offset-checkpoint")
_COMPACTION = "compact"
_VERSION = "0"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


def rewrite_checkpoint(policy: str) -> str:
    """Return the name of the checkpoint of a cleanup policy; that of compaction is Apache Kafka's."""
    return _COMPACTION_CHECKPOINT if policy == _COMPACTION else f"{policy}-rewrite-offset-checkpoint"


def rewriting_policy(file_name: str) -> str | None:
    """Return the cleanup policy whose checkpoint has that name, None if it is of none."""
    if file_name == _COMPACTION_CHECKPOINT:
        return _COMPACTION
    named = _REWRITE_CHECKPOINT.fullmatch(file_name)
    return named["policy"] if named else None


def write_checkpoint(path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Blocking: replace a checkpoint atomically and durably."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items())]
    disk.replace_file(path, ("\n".join(lines) + "\n").encode())


def read_checkpoint(path: Path) -> dict[TopicPartition, int]:
    """Blocking: return the offsets of a checkpoint; none, with a warning, when it is damaged.

    Nothing is lost without one: logs are then recovered from their beginning.
    """
    content = disk.read_file(path)
    if not content:
        return {}
    try:
        return _parse(content.decode())
    except ValueError as error:
        _log.warning("%s is damaged (%s) and is not used", path, error)
        return {}


def _parse(text: str) -> dict[TopicPartition, int]:
    version, count, *lines = text.splitlines()
    if version != _VERSION:
        raise ValueError(f"version {version!r} is not {_VERSION}")
    if int(count) != len(lines):
        raise ValueError(f"{len(lines)} entries instead of {count}")
    offsets: dict[TopicPartition, int] = {}
    for line in lines:
        topic, partition, offset = line.split(" ")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
        if offsets[TopicPartition(topic, int(partition))] < 0:
            raise ValueError(f"a negative offset in {line!r}")
    return offsets


def consume_clean_shutdown_file(directory: Path) -> bool:
    """Blocking: return whether the directory was closed properly; the file is removed, durably."""
    path = directory / CLEAN_SHUTDOWN_FILE
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return False
    # Or else a loss of power could bring the file back when logs were changed already, and the next start
    # would skip their recovery.
    disk.sync_directory(directory)
    return True


def write_clean_shutdown_file(directory: Path, broker_epoch: int) -> None:
    """Blocking: record, durably, that everything in the directory is closed."""
    content = f'{{"version":0,"brokerEpoch":{broker_epoch}}}'
    disk.replace_file(directory / CLEAN_SHUTDOWN_FILE, content.encode())
