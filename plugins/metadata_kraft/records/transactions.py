"""Metadata records that bracket changes of more than one batch, and those that change nothing.

Source: the schemas of Apache Kafka 4.3's metadata records; KIP-868.
"""

from __future__ import annotations

from tidelog.plugins.protocol_kafka.codecs.declare import VersionSpan, int8, string, struct


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
    """The controller is alive, says Kafka twice a second."""


@struct(VersionSpan(0, 0, flexible=0))
class ZkMigrationStateRecord:
    """How far the cluster got on its way from ZooKeeper, if it came from there."""

    zk_migration_state: int = int8()
