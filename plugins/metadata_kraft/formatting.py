"""Initial file of a metadata log, as Apache Kafka's StorageTool formats a directory of a single node.

__cluster_metadata-0/00000000000000000000-0000000000.checkpoint

has `kraft.version`, the voter, and the feature levels that the log begins with (KIP-853, KIP-1170). Kafka
before 4.4 wrote the levels into `bootstrap.checkpoint` beside the log's directory.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.kernel.seams.features import ELR_VERSION
from tidelog.plugins.metadata_kraft.encoding import frame
from tidelog.plugins.metadata_kraft.image import METADATA_VERSION
from tidelog.plugins.metadata_kraft.records.cluster import FeatureLevelRecord, SupportedFeature
from tidelog.plugins.metadata_kraft.records.control import (
    KRaftVersionRecord,
    SnapshotHeaderRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
)
from tidelog.plugins.metadata_kraft.snapshots import SnapshotId, write_snapshot

FORMAT_SNAPSHOT = SnapshotId(0, 0)
KRAFT_VERSION = 1

FORMAT_LEVELS = {
    METADATA_VERSION: 33,
    ELR_VERSION: 1,
    "group.version": 1,
    "share.version": 2,
    "streams.version": 1,
    "transaction.version": 2,
}
"""The feature levels of a directory that Apache Kafka 4.4 formats; 33 is `metadata.version` 4.4-IV2."""

SUPPORTED_LEVELS = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    METADATA_VERSION: (7, 33),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    ELR_VERSION: (0, 1),
}

CONTROLLER_LISTENER = "CONTROLLER"
CONTROLLER_HOST = "localhost"
CONTROLLER_PORT = 9093
"""Kafka's own example; unused, as Kafka records its own listener when it takes over the log."""


def supported_features() -> list[SupportedFeature]:
    """Return the feature levels that this broker registers as supported: those of Apache Kafka 4.4."""
    return [
        SupportedFeature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in SUPPORTED_LEVELS.items()
    ]


def format_directory(metadata_directory: Path, voter: Voter, now_ms: int) -> None:
    """Blocking: write the initial file; after a crash the directory is formatted again."""
    header = SnapshotHeaderRecord(last_contained_log_timestamp=now_ms)
    preamble = [header, KRaftVersionRecord(kraft_version=KRAFT_VERSION), VotersRecord(voters=[voter])]
    values = [
        frame(FeatureLevelRecord(name=name, feature_level=level)) for name, level in FORMAT_LEVELS.items()
    ]
    write_snapshot(metadata_directory / FORMAT_SNAPSHOT.file_name, 0, preamble, values, now_ms)


def sole_voter(node_id: int, directory_id: bytes) -> Voter:
    """Return this node as the only voter."""
    endpoint = VoterEndpoint(name=CONTROLLER_LISTENER, host=CONTROLLER_HOST, port=CONTROLLER_PORT)
    return Voter(voter_id=node_id, voter_directory_id=directory_id, endpoints=[endpoint])
