"""The `GroupService`: requests of classic members and of tools go to their group, whatever its protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidGroupId,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.coordination.groups import (
    DescribedGroup,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.classic_groups.registered_classic_group import RegisteredClassicGroup
from tidelog.plugins.coordinator.groups.group import ClassicMembership, Group
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.offsets.machine import removals
from tidelog.plugins.coordinator.offsets.records import OFFSETS_PER_BATCH
from tidelog.plugins.coordinator.offsets.store import OffsetStore
from tidelog.plugins.coordinator.runtime.runtime import CoordinatorRuntime, Durable


class Groups:
    """A `GroupService` over the registry; `for_join` returns the group that a member joins."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        registry: GroupRegistry,
        for_join: Callable[[JoinRequest], ClassicMembership],
        offsets: OffsetStore,
    ) -> None:
        self._runtime = runtime
        self._log = runtime.log
        self._registry = registry
        self._for_join = for_join
        self._offsets = offsets

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Join; the answer comes when the generation begins."""
        _check_group_id(request.group_id)
        return self._for_join(request).classic_join(request)

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Return the member's assignment, once it is known."""
        self._check_active(request.group_id)
        group = self._registry.find(request.group_id)
        if not isinstance(group, ClassicMembership):
            raise _no_group(request.group_id)
        return group.classic_sync(request)

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """Extend a member's session. While the group is being loaded every heartbeat is accepted."""
        registry = self._registry
        group = registry.find(group_id)
        try:
            if group is None or registry.closed:
                self._check_active(group_id)
            else:
                self._log.check_active(group.partition)
        except CoordinatorLoadInProgress:
            return
        if not isinstance(group, ClassicMembership):
            raise _no_group(group_id)
        group.classic_heartbeat(member_id, generation, group_instance_id)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members, at once; one outcome for each, in order."""
        self._check_active(group_id)
        group = self._registry.find(group_id)
        if not isinstance(group, ClassicMembership):
            error = _no_group(group_id)
            return [LeaveOutcome(member, error) for member in members]
        return await group.classic_leave(members)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the description of a classic group."""
        self._check_partition(self._runtime.partition_for(group_id))
        group = self._registry.get(group_id)
        if not isinstance(group, RegisteredClassicGroup):
            raise GroupIdNotFound(f"Group {group_id} is not a classic group.")
        return group.describe()

    def list(self) -> Iterator[ListedGroup]:
        """Iterate over all groups."""
        for partition in range(self._log.partition_count):
            try:
                self._check_partition(partition)
            except NotCoordinator:
                continue
        return (group.listed() for group in self._registry)

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete groups and their offsets; all tombstones are written before any of them is waited for.

        The offsets of a group go batch by batch, and the group with the last of them.
        """
        pace, begun = Pace(), list[Durable | BrokerError | None]()
        for group_id in group_ids:
            try:
                await self._delete_most_offsets(group_id, pace)
                begun.append(self._delete(group_id))
            except BrokerError as error:
                begun.append(error)
            await pace.turn()
        return [await _finished(outcome) for outcome in begun]

    async def _delete_most_offsets(self, group_id: str, pace: Pace) -> None:
        """Delete offsets of a group in batches, until what is left fits into one with the group."""
        partition, _ = self._check_deletion(group_id)
        while self._offsets.table(partition).count(group_id) >= OFFSETS_PER_BATCH:
            partitions = self._offsets.table(partition).partitions(group_id)
            while some := [*islice(partitions, OFFSETS_PER_BATCH)]:
                partition, _ = self._check_deletion(group_id)
                self._runtime.write(partition, self._offsets.table(partition), removals(group_id, some))
                await pace.turn()

    def _delete(self, group_id: str) -> Durable | None:
        partition, group = self._check_deletion(group_id)
        table = self._offsets.table(partition)
        rest = removals(group_id, table.partitions(group_id))
        durable = self._runtime.write(partition, table, rest, more=group.tombstones())
        self._registry.remove(group, UnknownMemberId(f"group {group_id!r} was deleted"))
        return durable

    def _check_deletion(self, group_id: str) -> tuple[int, Group]:
        """Return a group that may be deleted, and its partition of the log."""
        partition = self._runtime.partition_for(group_id)
        self._check_partition(partition)
        group = self._registry.get(group_id)
        if not group.is_empty():
            raise NonEmptyGroup(f"group {group_id!r} has members")
        return partition, group

    def _check_active(self, group_id: str) -> None:
        _check_group_id(group_id)
        self._check_partition(self._runtime.partition_for(group_id))

    def _check_partition(self, partition: int) -> None:
        """Check that the groups of a partition may be used; raises as `StateLog.check_active`."""
        self._registry.check_open()
        self._log.check_active(partition)


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise InvalidGroupId("the group id is empty")


def _no_group(group_id: str) -> UnknownMemberId:
    return UnknownMemberId(f"there is no group {group_id!r}")


async def _finished(outcome: Durable | BrokerError | None) -> BrokerError | None:
    if outcome is None or isinstance(outcome, BrokerError):
        return outcome
    try:
        await outcome()
    except BrokerError as error:
        return error
    return None
