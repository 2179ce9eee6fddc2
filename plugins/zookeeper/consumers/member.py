"""A member of a group under trio: its state machine, its registries, and what fetches for it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

import trio

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.assignment import Owners
from tidelog.plugins.zookeeper.consumers.membership import (
    Action,
    Claim,
    Connected,
    Disconnected,
    Event,
    Failed,
    GroupChanged,
    Leave,
    Membership,
    MembershipPhase,
    MembershipRules,
    PauseFetching,
    ReadGroup,
    Register,
    Release,
    ReportTrouble,
    Request,
    ResumeFetching,
    StartFetching,
    StopFetching,
    Succeeded,
    TimePassed,
    Unregister,
    step,
)
from tidelog.plugins.zookeeper.consumers.registries import ConsumerRegistries
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription
from tidelog.plugins.zookeeper.errors import ZooKeeperError
from tidelog.plugins.zookeeper.session import ZooKeeper

_log = logging.getLogger(__name__)

_Work: TypeAlias = Request | Mapping[TopicPartition, int]
"""A request, or offsets to commit."""


class Fetching(Protocol):
    """What fetches the partitions of a member into its streams. It returns at once from every call."""

    def start(self, owners: Owners) -> None:
        """Fetch these partitions into their streams, from the offsets that are stored by now."""
        ...

    def stop(self, partitions: frozenset[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Hand out no record of these from now on; return the next offset of each that was consumed."""
        ...

    def pause(self) -> None:
        """Hand out no record until `resume`."""
        ...

    def resume(self) -> None:
        """Hand out records again."""
        ...


class OffsetRegistry(Protocol):
    """Where offsets are stored: the group's registry in ZooKeeper, the broker, or both."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store the next offsets to consume."""
        ...


class ZooKeeperMember:
    """One member, whose client of ZooKeeper runs; `run` ends when it has left.

    Attributes:
        registry: the registries of its group
        state: what it has and waits for
    """

    def __init__(
        self,
        zookeeper: ZooKeeper,
        group_id: str,
        subscription: Subscription,
        fetching: Fetching,
        rules: MembershipRules,
        *,
        now_ms: Callable[[], int],
        offsets: OffsetRegistry | None = None,
    ) -> None:
        """Without `offsets` they are stored in ZooKeeper."""
        self._zookeeper = zookeeper
        self.registry = ConsumerRegistries(
            zookeeper,
            group_id,
            rules.consumer_id,
            subscription,
            on_change=self._group_changed,
            now_ms=now_ms,
            with_internal=rules.with_internal,
        )
        self._fetching = fetching
        self._offsets: OffsetRegistry = self.registry if offsets is None else offsets
        self.state = Membership(rules)
        self._waiting: deque[_Work] = deque()
        self._work_is_there = trio.Event()
        self._state_changed = trio.Event()

    def leave(self) -> None:
        """Leave the group: what was consumed is committed, and `run` ends."""
        self._handle(Leave())

    async def run(self) -> None:
        """Take part until it has left; cancelled, it leaves its nodes to the end of the session."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_connection)
            nursery.start_soon(self._do_work)
            nursery.start_soon(self._keep_time)
            while self.state.phase is not MembershipPhase.LEFT:
                await self._state_changed.wait()
            nursery.cancel_scope.cancel()

    def _group_changed(self) -> None:
        self._handle(GroupChanged())

    def _handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event, trio.current_time())
        for action in actions:
            self._begin(action)
        self._state_changed.set()
        self._state_changed = trio.Event()

    def _begin(self, action: Action) -> None:
        match action:
            case StartFetching(owners):
                self._fetching.start(owners)
            case StopFetching(partitions, commit):
                consumed = self._fetching.stop(partitions)
                if commit and consumed:
                    self._add(consumed)
            case PauseFetching():
                self._fetching.pause()
            case ResumeFetching():
                self._fetching.resume()
            case ReportTrouble(reason):
                _log.warning("%s does not get its partitions: %s", self.state.rules.consumer_id, reason)
            case _:
                self._add(action)

    def _add(self, work: _Work) -> None:
        self._waiting.append(work)
        self._work_is_there.set()

    async def _follow_connection(self) -> None:
        session_id = 0
        while True:
            now = self._zookeeper.session_id
            if now != session_id:
                if session_id:
                    self._handle(Disconnected())
                if now:
                    self._handle(Connected(now))
                session_id = now
            else:
                await self._zookeeper.wait_changed()

    async def _keep_time(self) -> None:
        while True:
            deadline = self.state.deadline
            with trio.move_on_at(float("inf") if deadline is None else deadline) as waiting:
                await self._state_changed.wait()
            if waiting.cancelled_caught:
                self._handle(TimePassed())

    async def _do_work(self) -> None:
        """Do requests and commits, one after the other."""
        while True:
            while not self._waiting:
                self._work_is_there = trio.Event()
                await self._work_is_there.wait()
            work = self._waiting.popleft()
            if isinstance(work, Mapping):
                await self._commit(work)
                continue
            try:
                done = await self._request(work)
            except ZooKeeperError as error:
                self._handle(Failed(work.number, str(error)))
            else:
                self._handle(done)

    async def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        try:
            await self._offsets.commit(offsets)
        except ZooKeeperError as error:
            # The next owner reads some records again.
            _log.warning("%s cannot commit offsets: %s", self.state.rules.consumer_id, error)

    async def _request(self, request: Request) -> Succeeded:
        registry = self.registry
        match request:
            case Register(number):
                await registry.register()
                return Succeeded(number)
            case ReadGroup(number):
                return Succeeded(number, await registry.read_group(self.state.may_own))
            case Release(number, partitions):
                await registry.release(partitions)
                return Succeeded(number)
            case Claim(number, owners):
                return Succeeded(number, created=await registry.claim(owners))
            case Unregister(number):
                await registry.unregister()
                return Succeeded(number)
