"""Classic groups as those of the consumer protocol see them, on the way from one to the other (KIP-848)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.errors import RebalanceInProgress
from tidelog.plugins.coordinator.classic_groups.driver import GroupDriver
from tidelog.plugins.coordinator.classic_groups.entry import ClassicEntry
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.member import Member
from tidelog.plugins.coordinator.classic_groups.recording import record_of
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.consumer_groups import migration
from tidelog.plugins.coordinator.log import StateRecord


class MigratingGroups:
    """See `consumer_groups.neighbours.ClassicGroups`."""

    def __init__(self, driver: GroupDriver) -> None:
        self._driver = driver

    def snapshot(self, group_id: str) -> migration.ClassicGroup | None:
        """A classic group as it is now; None without one, or when it only keeps offsets."""
        entry = self._driver.directory.get(group_id)
        if entry is None or entry.group.protocol_type is None:
            return None
        group = entry.group
        return migration.ClassicGroup(
            group_id,
            group.generation,
            group.protocol_type or "",
            group.protocol_name,
            tuple(_told(member) for member in group.members.values()),
        )

    def tombstones(self, group_id: str) -> Sequence[StateRecord]:
        """What takes its record out of the log."""
        entry = self._driver.directory.get(group_id)
        return () if entry is None else entry.tombstones()

    def displace(self, group_id: str) -> None:
        """It is a consumer group now."""
        entry = self._driver.directory.get(group_id)
        if entry is not None:
            self._driver.give_up(entry, RebalanceInProgress(f"group {group_id!r} changes its protocol"))

    def records(self, classic: migration.ClassicGroup) -> Sequence[StateRecord]:
        """What puts such a group into the log."""
        return [record_of(self._group(classic).image(), self._driver.clock())]

    def adopt(self, classic: migration.ClassicGroup) -> None:
        """It is a classic group now: its members go on, and rebalance."""
        group = self._group(classic)
        partition = self._driver.partition_for(group.group_id)
        entry = ClassicEntry(group, partition, state_timestamp_ms=self._driver.clock())
        self._driver.adopt(entry, rebalance=True)

    def _group(self, classic: migration.ClassicGroup) -> ClassicGroup:
        group = ClassicGroup(classic.group_id, self._driver.settings)
        for member in classic.members:
            group.add(_taken(member), classic.protocol_type)
        group.generation = classic.generation
        group.protocol_type = classic.protocol_type
        if group.members:
            group.state = GroupState.STABLE
            group.protocol_name = classic.protocol_name or group.select_protocol()
        return group


def _told(member: Member) -> migration.ClassicMember:
    return migration.ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        tuple(member.protocols.items()),
        member.assignment,
    )


def _taken(member: migration.ClassicMember) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.session_timeout_ms,
        member.rebalance_timeout_ms,
        dict(member.protocols),
        member.assignment,
    )
