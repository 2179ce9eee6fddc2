"""The `GroupService`: requests of classic members and of tools go to their group, whatever its protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, Protocol

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
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
from tidelog.plugins.coordinator.groups.group import Group
from tidelog.plugins.coordinator.groups.registry import GroupRegistry
from tidelog.plugins.coordinator.groups.replies import Durable
from tidelog.plugins.coordinator.runtime import StateLog, StateRecord

OFFSETS_PER_BATCH: Final = 300
"""Offsets of a group that are removed at once, in a millisecond or two: all may not fit into a batch."""


class OffsetsOfDeletedGroups(Protocol):
    """Interface of DeleteGroups to committed offsets."""

    def count(self, group_id: str) -> int:
        """Return how many offsets a group has, committed and pending."""
        ...

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Iterate over the partitions for which a group has an offset now, committed or pending."""
        ...

    def tombstones(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> Sequence[StateRecord]:
        """Return the records that remove these offsets of a group."""
        ...

    def forget(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Drop these offsets of a group: their tombstones are in the log."""
        ...


class Groups:
    """A `GroupService` over the registry; `for_join` returns the group that a join goes to."""

    def __init__(
        self,
        registry: GroupRegistry,
        log: StateLog,
        partition_for: Callable[[str], int],
        for_join: Callable[[JoinRequest], Group],
        offsets: OffsetsOfDeletedGroups,
    ) -> None:
        self._registry = registry
        self._log = log
        self._partition_for = partition_for
        self._for_join = for_join
        self._offsets = offsets

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """Join; the answer comes when the generation begins."""
        _check_group_id(request.group_id)
        return self._for_join(request).join(request)

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """Return the member's assignment, once it is known."""
        self._check_active(request.group_id)
        group = self._registry.find(request.group_id)
        if group is None:
            raise _no_group(request.group_id)
        return group.sync(request)

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
        if group is None:
            raise _no_group(group_id)
        group.heartbeat(member_id, generation, group_instance_id)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """Remove members, at once; one outcome for each, in order."""
        self._check_active(group_id)
        group = self._registry.find(group_id)
        if group is None:
            error = _no_group(group_id)
            return [LeaveOutcome(member, error) for member in members]
        return await group.leave(members)

    def describe(self, group_id: str) -> DescribedGroup:
        """Return the description of a classic group."""
        self._check_partition(self._partition_for(group_id))
        return self._registry.get(group_id).describe()

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
        self._check_deletion(group_id)
        while self._offsets.count(group_id) >= OFFSETS_PER_BATCH:
            partitions = self._offsets.partitions(group_id)
            while some := [*islice(partitions, OFFSETS_PER_BATCH)]:
                partition, _ = self._check_deletion(group_id)
                self._log.append(partition, self._offsets.tombstones(group_id, some))
                self._offsets.forget(group_id, some)
                await pace.turn()

    def _delete(self, group_id: str) -> Durable | None:
        partition, group = self._check_deletion(group_id)
        rest = [*self._offsets.partitions(group_id)]
        result = self._log.append(partition, [*self._offsets.tombstones(group_id, rest), *group.tombstones()])
        self._offsets.forget(group_id, rest)
        self._registry.remove(group, UnknownMemberId(f"group {group_id!r} was deleted"))
        return partial(self._log.committed, partition, result) if result.flush_due else None

    def _check_deletion(self, group_id: str) -> tuple[int, Group]:
        """Return a group that may be deleted, and its partition of the log."""
        partition = self._partition_for(group_id)
        self._check_partition(partition)
        group = self._registry.get(group_id)
        if not group.is_empty():
            raise NonEmptyGroup(f"group {group_id!r} has members")
        return partition, group

    def _check_active(self, group_id: str) -> None:
        _check_group_id(group_id)
        self._check_partition(self._partition_for(group_id))

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
