"""Creation of classic groups in the registry: for a member that joins, for offsets alone, from the log."""

from __future__ import annotations

from collections.abc import Generator

from tidelog.kernel.errors import InconsistentGroupProtocol, InvalidSessionTimeout, UnknownMemberId
from tidelog.kernel.seams.coordination.groups import NO_MEMBER_ID, JoinRequest
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.records import GenerationChange
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import (
    ClassicContext,
    RegisteredClassicGroup,
)
from tidelog.plugins.coordinator.classic_groups.states import GroupState
from tidelog.plugins.coordinator.groups.group import ClassicMembership
from tidelog.plugins.coordinator.runtime import StateRecord


class ClassicGroupFactory:
    """Creates classic groups in the registry, also those that the log describes."""

    def __init__(self, context: ClassicContext) -> None:
        self.context = context

    def for_join(self, request: JoinRequest) -> ClassicMembership:
        """Return the group that a member joins: a new classic one for a new member, if there is none.

        Raises:
            NotCoordinator, CoordinatorLoadInProgress: as `StateLog.check_active`.
            InvalidSessionTimeout: the session timeout is out of bounds.
            UnknownMemberId: the member was in a group that is gone.
            InconsistentGroupProtocol: the group is of a kind that has no members of the classic protocol.
        """
        context, group_id = self.context, request.group_id
        context.registry.check_open()
        context.runtime.active_partition_for(group_id)
        low, high = context.settings.min_session_timeout_ms, context.settings.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeout(
                f"a session timeout of {request.session_timeout_ms} ms is not within {low} to {high} ms"
            )
        group = context.registry.find(group_id)
        if isinstance(group, ClassicMembership):
            return group
        if group is not None:
            raise InconsistentGroupProtocol(f"group {group_id!r} has no members of the classic protocol")
        if request.member_id != NO_MEMBER_ID:
            raise UnknownMemberId(f"there is no group {group_id!r}")
        return self.create(group_id)

    def begin_simple(self, group_id: str) -> None:
        """Create a group that only has offsets, unless that id has a group."""
        if self.context.registry.find(group_id) is None:
            self.create(group_id)

    def create(self, group_id: str) -> RegisteredClassicGroup:
        """Create a group without members."""
        created = RegisteredClassicGroup(
            ClassicGroup(group_id, self.context.settings),
            self.context.runtime.partition_for(group_id),
            self.context,
        )
        self.context.registry.put(created)
        return created

    def records(self, group: ClassicGroup) -> Generator[None, None, list[StateRecord]]:
        """Return the records of a group that begins as a classic one with these members, in steps."""
        change = yield from GenerationChange.of_in_steps(group, self.context.runtime.clock())
        return [(yield from change.to_record_in_steps())]

    def adopt(self, group: ClassicGroup) -> None:
        """Replace the group of that id, and let its members rejoin; its records are in the log."""
        context, group_id = self.context, group.group_id
        runtime = context.runtime
        adopted = RegisteredClassicGroup(group, runtime.partition_for(group_id), context, runtime.clock())
        context.registry.put(adopted)
        adopted.resume(rebalance=True)

    def replay(self, partition: int, key: bytes, value: bytes | None) -> Generator[None, None, None]:
        """Apply a record that was read back, in steps.

        Raises:
            UnreadableRecord: it is malformed, or newer than this broker.
        """
        change = GenerationChange.from_record(key, value)
        yield
        registry = self.context.registry
        group = ClassicGroup(change.group_id, self.context.settings)
        change.apply(group)
        if group.state is not GroupState.DEAD:
            registry.put(RegisteredClassicGroup(group, partition, self.context, change.timestamp_ms))
            return
        removed = registry.find(change.group_id)
        if isinstance(removed, RegisteredClassicGroup):
            registry.remove(removed, UnknownMemberId(f"group {change.group_id!r} was removed"))
