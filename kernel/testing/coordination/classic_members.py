"""Members of one classic group, each with its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import trio
from trio.testing import MockClock

from tidelog.kernel.seams.coordination.groups import (
    Assignment,
    GroupProtocol,
    GroupService,
    Joined,
    JoinRequest,
    Synced,
    SyncRequest,
)
from tidelog.kernel.testing.coordination.harness import GROUP, CoordinatorHarness
from tidelog.kernel.testing.coordination.waiting import PendingRequest, Time, answers, send

SESSION_MS = 10_000
RANGE = (GroupProtocol("range", b"likes range"),)


class ClassicMembers:
    """The members of `GROUP`, static ones if they have a group instance id."""

    def __init__(self, harness: CoordinatorHarness, clock: MockClock, nursery: trio.Nursery) -> None:
        self.time = Time(harness, clock)
        self._harness = harness
        self._nursery = nursery

    @property
    def groups(self) -> GroupService:
        """The group service under test."""
        return self._harness.coordinator.groups

    async def join(
        self,
        member_id: str = "",
        protocols: Sequence[GroupProtocol] = RANGE,
        instance: str | None = None,
        **rest: Any,
    ) -> PendingRequest[Joined]:
        """Ask to join; `rest` are fields of `JoinRequest`."""
        request = JoinRequest(
            GROUP,
            member_id,
            "consumer",
            protocols,
            SESSION_MS,
            60_000,
            client_id="client",
            client_host="/127.0.0.1",
            group_instance_id=instance,
            **rest,
        )
        return await send(self._nursery, partial(self.groups.join, request))

    async def sync(
        self, joined: Joined, shares: Mapping[str, bytes] | None = None, **rest: Any
    ) -> PendingRequest[Synced]:
        """Send SyncGroup; the leader's request has the assignments."""
        assignments = [Assignment(*share) for share in (shares or {}).items()]
        request = SyncRequest(GROUP, joined.member_id, joined.generation, assignments=assignments, **rest)
        return await send(self._nursery, partial(self.groups.sync, request))

    async def generation(
        self, count: int, *, named: bool = False, protocols: Sequence[Sequence[GroupProtocol]] = ()
    ) -> list[Joined]:
        """Return `count` members of one generation, in the order in which they joined."""
        joined: list[Joined] = []
        likes = protocols or [RANGE] * count
        for number in range(count):
            names = [f"instance-{each}" if named else None for each in range(number + 1)]
            requests = [await self.join("", likes[number], names[-1])]
            requests += [
                await self.join(old.member_id, likes[each], names[each]) for each, old in enumerate(joined)
            ]
            new_member, *others = await answers(self.time, *requests)
            joined = [*others, new_member]
            if number < count - 1:
                await self.assign(joined)
        return joined

    async def assign(self, joined: Sequence[Joined]) -> list[Synced]:
        """Have the leader assign `share-0` to the first member, and so on; return all responses."""
        shares = {each.member_id: b"share-%d" % number for number, each in enumerate(joined)}
        requests = [
            await self.sync(each, shares if each.leader == each.member_id else None) for each in joined
        ]
        return await answers(self.time, *requests)

    async def stable(self, count: int, *, named: bool = False) -> list[Joined]:
        """Return `count` members that have their assignments."""
        joined = await self.generation(count, named=named)
        await self.assign(joined)
        return joined

    def heartbeat(self, joined: Joined, instance: str | None = None) -> None:
        """Send a heartbeat."""
        self.groups.heartbeat(GROUP, joined.member_id, joined.generation, instance)
