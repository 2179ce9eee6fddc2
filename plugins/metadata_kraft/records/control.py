"""Control records of the metadata log and its snapshots, metadata transactions and no-ops.

A control record's key is its version (int16, 0) and its type (int16); its value is one of the messages in
`CONTROL_TYPES`. The others are metadata records.
Source: the schemas of Apache Kafka 4.3's messages; KIP-595, KIP-630, KIP-853, KIP-868.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.schema.declare import (
    VersionSpan,
    array,
    int8,
    int16,
    int32,
    int64,
    nested,
    string,
    struct,
    uint16,
    uuid,
)
from tidelog.plugins.schema.types import ZERO_UUID

if TYPE_CHECKING:
    from typing import Any

    from tidelog.plugins.schema.types import Uuid


@struct()
class LeaderChangeVoter:
    """A voter of the election."""

    voter_id: int = int32()
    voter_directory_id: Uuid = uuid(versions="1+", default=ZERO_UUID, ignorable=True)


@struct(VersionSpan(0, 1, flexible=0))
class LeaderChangeMessage:
    """A new epoch of the log has begun, with this leader."""

    version: int = int16(default=0)
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


@struct(VersionSpan(0, 0, flexible=0))
class SnapshotHeaderRecord:
    """Start of a snapshot; the timestamp (milliseconds) is that of the last batch that it covers."""

    version: int = int16(default=0)
    last_contained_log_timestamp: int = int64()


@struct(VersionSpan(0, 0, flexible=0))
class SnapshotFooterRecord:
    """End of a snapshot, which is complete."""

    version: int = int16(default=0)


@struct(VersionSpan(0, 0, flexible=0))
class KRaftVersionRecord:
    """`kraft.version`: with 0 the voters are configured, with 1 they are in the log."""

    version: int = int16(default=0)
    kraft_version: int = int16()


@struct()
class VoterEndpoint:
    """Address of a voter."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@struct(frozen=True)
class SupportedKRaftVersions:
    """Versions of `kraft.version` that a voter supports."""

    min_supported_version: int = int16(default=0)
    max_supported_version: int = int16(default=1)


@struct()
class Voter:
    """Voter, by its node id and the id of its directory."""

    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: SupportedKRaftVersions = nested(
        SupportedKRaftVersions, default=SupportedKRaftVersions()
    )


@struct(VersionSpan(0, 0, flexible=0))
class VotersRecord:
    """All voters from this record on."""

    version: int = int16(default=0)
    voters: list[Voter] = array(Voter)


CONTROL_TYPES: Final[dict[type[Any], int]] = {
    LeaderChangeMessage: 2,
    SnapshotHeaderRecord: 3,
    SnapshotFooterRecord: 4,
    KRaftVersionRecord: 5,
    VotersRecord: 6,
}


@struct(VersionSpan(0, 0, flexible=0))
class BeginTransactionRecord:
    """Begin of a transaction: the following records are applied at its end."""

    name: str | None = string(nullable="0+", tag=0, default=None)


@struct(VersionSpan(0, 0, flexible=0))
class EndTransactionRecord:
    """End of a transaction: its records are applied."""


@struct(VersionSpan(0, 0, flexible=0))
class AbortTransactionRecord:
    """Abort of a transaction: its records are ignored."""

    reason: str | None = string(nullable="0+", tag=0, default=None)


@struct(VersionSpan(0, 0, flexible=0))
class NoOpRecord:
    """A heartbeat of the active controller, which Kafka writes twice a second."""


@struct(VersionSpan(0, 0, flexible=0))
class ZkMigrationStateRecord:
    """State of a migration from ZooKeeper."""

    zk_migration_state: int = int8()
