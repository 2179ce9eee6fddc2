"""Records that bracket others: control records of the log and its snapshots, metadata transactions, no-ops.

A control record's key is its version (int16, 0) and its type (int16); its value is one of the messages in
`CONTROL_TYPES`. The others are metadata records.
Source: the schemas of Apache Kafka 4.3's messages; KIP-595, KIP-630, KIP-853, KIP-868.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.codecs.declare import (
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
from tidelog.plugins.protocol_kafka.codecs.types import ZERO_UUID

if TYPE_CHECKING:
    from typing import Any

    from tidelog.plugins.protocol_kafka.codecs.types import Uuid


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
    """A snapshot begins; the timestamp (milliseconds) is that of the last batch it stands for."""

    version: int = int16(default=0)
    last_contained_log_timestamp: int = int64()


@struct(VersionSpan(0, 0, flexible=0))
class SnapshotFooterRecord:
    """A snapshot is complete."""

    version: int = int16(default=0)


@struct(VersionSpan(0, 0, flexible=0))
class KRaftVersionRecord:
    """0: the voters are configured; 1: they stand in the log."""

    version: int = int16(default=0)
    kraft_version: int = int16()


@struct()
class VoterEndpoint:
    """Where a voter listens."""

    name: str = string()
    host: str = string()
    port: int = uint16()


@struct(frozen=True)
class SupportedKRaftVersions:
    """What a voter can work with."""

    min_supported_version: int = int16(default=0)
    max_supported_version: int = int16(default=1)


@struct()
class Voter:
    """A node that votes, by its id and the id of its directory."""

    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    endpoints: list[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: SupportedKRaftVersions = nested(
        SupportedKRaftVersions, default=SupportedKRaftVersions()
    )


@struct(VersionSpan(0, 0, flexible=0))
class VotersRecord:
    """All voters from here on."""

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
    """What follows counts only once the transaction has ended."""

    name: str | None = string(nullable="0+", tag=0, default=None)


@struct(VersionSpan(0, 0, flexible=0))
class EndTransactionRecord:
    """Everything since the transaction's begin counts from now on."""


@struct(VersionSpan(0, 0, flexible=0))
class AbortTransactionRecord:
    """Nothing since the transaction's begin ever counts."""

    reason: str | None = string(nullable="0+", tag=0, default=None)


@struct(VersionSpan(0, 0, flexible=0))
class NoOpRecord:
    """A heartbeat of the active controller, which Kafka writes twice a second."""


@struct(VersionSpan(0, 0, flexible=0))
class ZkMigrationStateRecord:
    """How far the cluster got on its way from ZooKeeper, if it came from there."""

    zk_migration_state: int = int8()
