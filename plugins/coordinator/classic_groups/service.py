"""The `GroupService`: requests of members go into the state machine of their group."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Sequence

from tidelog.kernel.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    InvalidGroupId,
    InvalidSessionTimeout,
    UnknownMemberId,
)
from tidelog.kernel.seams.coordination.groups import (
    NO_MEMBER_ID,
    DescribedGroup,
    Joined,
    JoinRequest,
    LeaveOutcome,
    LeavingMember,
    ListedGroup,
    Synced,
    SyncRequest,
)
from tidelog.plugins.coordinator.classic_groups.driver import GroupDriver
from tidelog.plugins.coordinator.classic_groups.entry import ClassicEntry
from tidelog.plugins.coordinator.classic_groups.group import ClassicGroup
from tidelog.plugins.coordinator.classic_groups.joining import join
from tidelog.plugins.coordinator.classic_groups.leaving import leave
from tidelog.plugins.coordinator.classic_groups.neighbours import ConsumerGuard, ConsumerMembers
from tidelog.plugins.coordinator.classic_groups.sessions import heartbeat
from tidelog.plugins.coordinator.classic_groups.syncing import sync
from tidelog.plugins.coordinator.classic_groups.tools import GroupTools
from tidelog.plugins.coordinator.classic_groups.waiting import WaitingReply

_log = logging.getLogger(__name__)

MAX_REASON_CHARACTERS = 255
"""What a client says about itself in the log; clients do not send more either (KIP-800)."""


class ClassicGroups:
    """Classic groups, and a way to those of the consumer protocol for members that speak the classic one."""

    def __init__(self, driver: GroupDriver) -> None:
        self._driver = driver
        self._directory = driver.directory
        self._tools = GroupTools(driver)
        self._consumer_members: ConsumerMembers | None = None

    def know(self, members: ConsumerMembers, guard: ConsumerGuard) -> None:
        """There are groups of the consumer protocol too."""
        self._consumer_members = members
        self._tools.consumer_groups = guard

    def join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        """See `GroupService`."""
        self._check_active(request.group_id)
        low, high = self._driver.settings.min_session_timeout_ms, self._driver.settings.max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            raise InvalidSessionTimeout(
                f"a session timeout of {request.session_timeout_ms} ms is not within {low} to {high} ms"
            )
        others = self._consumer_members
        if others is not None and request.group_id in others:
            return self._join_consumer_group(others, request)
        return self._join(request)

    async def _join_consumer_group(self, others: ConsumerMembers, request: JoinRequest) -> Joined:
        if not await others.make_classic(request):
            return await others.join(request)
        # That waited for the disk: it may be a consumer group again by now, or its log be gone.
        joined = self.join(request)
        return joined if isinstance(joined, Joined) else await joined

    def _join(self, request: JoinRequest) -> Joined | Awaitable[Joined]:
        driver = self._driver
        entry = self._directory.get(request.group_id)
        if entry is None:
            if request.member_id != NO_MEMBER_ID:
                raise UnknownMemberId(f"there is no group {request.group_id!r}")
            group = ClassicGroup(request.group_id, driver.settings)
            entry = ClassicEntry(group, driver.partition_for(request.group_id))
            self._directory.put(entry)
        _log.debug("%s joins group %r: %s", _name(request), request.group_id, _reason(request.reason))
        reply = WaitingReply[Joined]()
        try:
            driver.carry_out(entry, join(entry.group, request, reply, driver.now_ms()))
        finally:
            driver.look_after(entry)
        return reply.nowait() or reply.wait()

    def sync(self, request: SyncRequest) -> Synced | Awaitable[Synced]:
        """See `GroupService`."""
        self._check_active(request.group_id)
        others = self._consumer_members
        if others is not None and request.group_id in others:
            return others.sync(request)
        driver, entry = self._driver, self._entry(request.group_id)
        reply = WaitingReply[Synced]()
        driver.carry_out(entry, sync(entry.group, request, reply, driver.now_ms()))
        driver.look_after(entry)
        return reply.nowait() or reply.wait()

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, group_instance_id: str | None = None
    ) -> None:
        """See `GroupService`. While groups are being read back every member is taken to be alive."""
        entry = self._directory.get(group_id)
        try:
            if entry is None:
                self._check_active(group_id)
            else:
                self._driver.check_active(entry.partition)
        except CoordinatorLoadInProgress:
            return
        if entry is None:
            others = self._consumer_members
            if others is None or group_id not in others:
                raise UnknownMemberId(f"there is no group {group_id!r}")
            others.heartbeat(group_id, member_id, generation, group_instance_id)
            return
        alarm_ms = entry.group.alarm_ms
        try:
            heartbeat(entry.group, member_id, generation, group_instance_id, self._driver.now_ms())
        finally:
            if entry.group.alarm_ms < alarm_ms:
                self._driver.look_after(entry)

    async def leave(self, group_id: str, members: Sequence[LeavingMember]) -> Sequence[LeaveOutcome]:
        """See `GroupService`."""
        self._check_active(group_id)
        others = self._consumer_members
        if others is not None and group_id in others:
            return await others.leave(group_id, members)
        driver, entry = self._driver, self._directory.get(group_id)
        if entry is None:
            gone = UnknownMemberId(f"there is no group {group_id!r}")
            return [LeaveOutcome(member, gone) for member in members]
        for member in members:
            who = member.member_id or member.group_instance_id
            _log.debug("%s leaves group %r: %s", who, group_id, _reason(member.reason))
        outcomes, write = leave(entry.group, members, driver.now_ms())
        durable = driver.carry_out(entry, write)
        driver.look_after(entry)
        if durable is not None:
            await durable()
        return outcomes

    def describe(self, group_id: str) -> DescribedGroup:
        """See `GroupService`."""
        return self._tools.describe(group_id)

    def list(self, states: Collection[str] = (), types: Collection[str] = ()) -> Sequence[ListedGroup]:
        """See `GroupService`."""
        return self._tools.list(states, types)

    async def delete(self, group_ids: Sequence[str]) -> Sequence[BrokerError | None]:
        """See `GroupService`."""
        return await self._tools.delete(group_ids)

    def _check_active(self, group_id: str) -> None:
        if not group_id:
            raise InvalidGroupId("the group id is empty")
        self._driver.check_active(self._driver.partition_for(group_id))

    def _entry(self, group_id: str) -> ClassicEntry:
        entry = self._directory.get(group_id)
        if entry is None:
            raise UnknownMemberId(f"there is no group {group_id!r}")
        return entry


def _name(request: JoinRequest) -> str:
    return request.member_id or request.group_instance_id or f"a new member of client {request.client_id!r}"


def _reason(told: str | None) -> str:
    return told[:MAX_REASON_CHARACTERS] if told else "no reason given"
