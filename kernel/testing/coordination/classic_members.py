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
from tidelog.kernel.testing.coordination.scene import GROUP, CoordinatorScene
from tidelog.kernel.testing.coordination.waiting import Request, Time, answers, send

SESSION_MS = 10_000
RANGE = (GroupProtocol("range", b"likes range"),)


class ClassicMembers:
    """The members of `GROUP`; those that have a name keep their place while they are away."""

    def __init__(self, scene: CoordinatorScene, clock: MockClock, nursery: trio.Nursery) -> None:
        self.time = Time(scene, clock)
        self._scene = scene
        self._nursery = nursery

    @property
    def groups(self) -> GroupService:
        """The groups to prove."""
        return self._scene.coordinator.groups

    async def join(
        self,
        member_id: str = "",
        protocols: Sequence[GroupProtocol] = RANGE,
        instance: str | None = None,
        **rest: Any,
    ) -> Request[Joined]:
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
    ) -> Request[Synced]:
        """Ask for a share; the leader brings them all."""
        assignments = [Assignment(*share) for share in (shares or {}).items()]
        request = SyncRequest(GROUP, joined.member_id, joined.generation, assignments=assignments, **rest)
        return await send(self._nursery, partial(self.groups.sync, request))

    async def generation(
        self, count: int, *, named: bool = False, protocols: Sequence[Sequence[GroupProtocol]] = ()
    ) -> list[Joined]:
        """As many members that have begun a generation together, in the order in which they came."""
        joined: list[Joined] = []
        likes = protocols or [RANGE] * count
        for number in range(count):
            names = [f"instance-{each}" if named else None for each in range(number + 1)]
            requests = [await self.join("", likes[number], names[-1])]
            requests += [
                await self.join(old.member_id, likes[each], names[each]) for each, old in enumerate(joined)
            ]
            newcomer, *others = await answers(self.time, *requests)
            joined = [*others, newcomer]
            if number < count - 1:
                await self.assign(joined)
        return joined

    async def assign(self, joined: Sequence[Joined]) -> list[Synced]:
        """The leader assigns `share-0` to the first, and so on; what all of them are told."""
        shares = {each.member_id: b"share-%d" % number for number, each in enumerate(joined)}
        requests = [
            await self.sync(each, shares if each.leader == each.member_id else None) for each in joined
        ]
        return await answers(self.time, *requests)

    async def stable(self, count: int, *, named: bool = False) -> list[Joined]:
        """As many members that have their shares."""
        joined = await self.generation(count, named=named)
        await self.assign(joined)
        return joined

    def heartbeat(self, joined: Joined, instance: str | None = None) -> None:
        """A member is alive."""
        self.groups.heartbeat(GROUP, joined.member_id, joined.generation, instance)
