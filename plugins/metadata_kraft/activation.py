"""Records that this node writes when it becomes the active controller.

A new epoch begins with a `LeaderChange`. An empty log then gets its bootstrap records:
feature levels, and the topics that were adopted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.kernel import disk
from tidelog.kernel.errors import BrokerError, ConfigError
from tidelog.plugins.metadata_kraft.changes import MIN_INSYNC_REPLICAS, Change
from tidelog.plugins.metadata_kraft.encoding import frame
from tidelog.plugins.metadata_kraft.formatting import FORMAT_LEVELS
from tidelog.plugins.metadata_kraft.image import RecordImage, image_records
from tidelog.plugins.metadata_kraft.reading import MetadataReplay
from tidelog.plugins.metadata_kraft.records.control import (
    BeginTransactionRecord,
    EndTransactionRecord,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
)
from tidelog.plugins.metadata_kraft.records.settings import BROKER_RESOURCE, ConfigRecord
from tidelog.plugins.metadata_kraft.snapshots import read_snapshot

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
"""Feature levels and credentials of a new log, in a log directory that Kafka before 4.4 formatted."""


def leader_change(node_id: int, replay: MetadataReplay) -> list[object]:
    """Return a new leader's first control records; Kafka requires the voters in the log itself, once."""
    voter = LeaderChangeVoter(voter_id=node_id)
    messages: list[object] = [LeaderChangeMessage(leader_id=node_id, voters=[voter], granting_voters=[voter])]
    if replay.kraft_version and replay.voters is not None and not replay.voters_in_log:
        messages += [KRaftVersionRecord(kraft_version=replay.kraft_version), replay.voters]
    return messages


def bootstrap_image(root: Path, formatted: RecordImage) -> RecordImage:
    """Blocking: return the image that a new log in the log directory `root` begins with.

    `formatted` is what the format snapshot has besides the voters: nothing if Kafka before 4.4 wrote it.

    Raises:
        ConfigError: `bootstrap.checkpoint` is damaged.
    """
    if formatted.metadata_version:
        return formatted
    path = root / BOOTSTRAP_CHECKPOINT
    if disk.read_file(path) is None:
        return RecordImage(features=dict(FORMAT_LEVELS))
    replay = MetadataReplay()
    try:
        for header, batch in read_snapshot(path):
            replay.feed(header, batch, from_snapshot=True)
    except BrokerError as error:
        raise ConfigError(f"{path} cannot be used: {error}; restore it from a backup") from error
    return replay.image


def bootstrap_values(image: RecordImage, adopted: Iterable[Change]) -> list[bytes]:
    """Return a log's first records, framed: those of an image, and the changes that adopt topics.

    They are a transaction, so that a crash leaves none or all of them.
    """
    values = [frame(BeginTransactionRecord(name="Bootstrap records")), *image_records(image)]
    # Kafka's controller sets it for the cluster along with `eligible.leader.replicas.version` (KIP-966).
    if image.has_elr:
        values.append(
            frame(
                ConfigRecord(
                    resource_type=BROKER_RESOURCE, resource_name="", name=MIN_INSYNC_REPLICAS, value="1"
                )
            )
        )
    values += [frame(message, version) for message, version in adopted]
    return [*values, frame(EndTransactionRecord())]
