"""What tools ask about groups of every kind: describe, list, delete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from tidelog.kernel.errors import (
    BrokerError,
    GroupIdNotFound,
    NonEmptyGroup,
    NotCoordinator,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import DescribedGroup, ListedGroup
from tidelog.plugins.coordinator.classic_groups.driver import GroupDriver
from tidelog.plugins.coordinator.classic_groups.neighbours import ConsumerGuard
from tidelog.plugins.coordinator.classic_groups.replies import Durable
from tidelog.plugins.coordinator.log import StateRecord


class GroupTools:
    """See `GroupService`."""

    def __init__(self, driver: GroupDriver) -> None:
        self.consumer_groups: ConsumerGuard | None = None
        self._driver = driver

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupService`."""
        driver = self._driver
        driver.check_active(driver.partition_for(group_id))
        entry = driver.directory.get(group_id)
        if entry is not None:
            return entry.described()
        if self._is_consumer_group(group_id):
            raise GroupIdNotFound(f"group {group_id!r} is not a classic group")
        raise GroupIdNotFound(f"Group {group_id} not found.")

    def list(self, states: Collection[str], types: Collection[str]) -> Sequence[ListedGroup]:
        """See `GroupService`."""
        driver = self._driver
        for partition in range(driver.log.partition_count):
            try:
                driver.check_active(partition)
            except NotCoordinator:
                continue
        found = [entry.listed() for entry in driver.directory]
        if self.consumer_groups is not None:
            found += self.consumer_groups.listed()
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {kind.strip().lower() for kind in types}
        return [
            group
            for group in found
            if (not wanted_states or group.state.lower() in wanted_states)
            and (not wanted_types or group.group_type in wanted_types)
        ]

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """See `GroupService`: all are deleted before any is waited for."""
        begun = [_outcome(partial(self._delete, group_id)) for group_id in group_ids]
        return [await _finished(outcome) for outcome in begun]

    def _delete(self, group_id: str) -> Durable | None:
        driver = self._driver
        partition = driver.partition_for(group_id)
        driver.check_active(partition)
        records = [*driver.offsets.tombstones(group_id), *self._tombstones(group_id)]
        durable: Durable | None = None
        if records:
            result = driver.log.append(partition, records)
            durable = partial(driver.log.committed, partition, result) if result.flush_due else None
        driver.offsets.forget(group_id)
        entry = driver.directory.get(group_id)
        if entry is not None:
            driver.give_up(entry, UnknownMemberId(f"group {group_id!r} was deleted"))
        elif self.consumer_groups is not None:
            self.consumer_groups.forget(group_id)
        return durable

    def _tombstones(self, group_id: str) -> Sequence[StateRecord]:
        entry = self._driver.directory.get(group_id)
        if entry is not None:
            records = entry.tombstones() if entry.is_empty() else None
        elif self.consumer_groups is not None and group_id in self.consumer_groups:
            records = self.consumer_groups.tombstones(group_id)
        else:
            raise GroupIdNotFound(f"Group {group_id} not found.")
        if records is None:
            raise NonEmptyGroup(f"group {group_id!r} has members")
        return records

    def _is_consumer_group(self, group_id: str) -> bool:
        return self.consumer_groups is not None and group_id in self.consumer_groups


def _outcome(delete: Callable[[], Durable | None]) -> Durable | BrokerError | None:
    try:
        return delete()
    except BrokerError as error:
        return error


async def _finished(outcome: Durable | BrokerError | None) -> BrokerError | None:
    if outcome is None or isinstance(outcome, BrokerError):
        return outcome
    try:
        await outcome()
    except BrokerError as error:
        return error
    return None
