"""A member of a group: its state machine, its registries, and what fetches for it, run by callbacks."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

import attrs

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
from tidelog.plugins.zookeeper.errors import SessionExpired, ZooKeeperError

if TYPE_CHECKING:
    from tidelog.plugins.zookeeper.callback_loop import CallbackLoop, LoopTimer
    from tidelog.plugins.zookeeper.session import ZooKeeperRequests

_log = logging.getLogger(__name__)

Committed: TypeAlias = Callable[[Exception | None], None]
"""What is called after a commit, with its error if there was one."""


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


class MemberOffsets(Protocol):
    """Where offsets are stored: the group's registry in ZooKeeper, the broker, or both."""

    def commit(self, offsets: Mapping[TopicPartition, int], done: Committed) -> None:
        """Store the next offsets to consume, and call `done` then."""
        ...


@attrs.frozen
class _Commit:
    """Offsets to commit, in its turn among the requests."""

    offsets: Mapping[TopicPartition, int]
    done: Committed
    session_id: int


_Work: TypeAlias = Request | _Commit


class ZooKeeperMember:
    """One member. Its client of ZooKeeper is started by others, which report what changes about it.

    Requests and commits are done one after the other, so that no commit is overtaken by a later one, and a
    partition is released when what was consumed of it is stored.

    Attributes:
        registry: the registries of its group
        state: what it has and waits for
    """

    def __init__(
        self,
        zookeeper: ZooKeeperRequests,
        registry: ConsumerRegistries,
        fetching: Fetching,
        rules: MembershipRules,
        loop: CallbackLoop,
        offsets: MemberOffsets,
    ) -> None:
        self._zookeeper = zookeeper
        self.registry = registry
        self._fetching = fetching
        self._loop = loop
        self._offsets = offsets
        self.state = Membership(rules)
        self._session_id = 0
        self._waiting: deque[_Work] = deque()
        self._is_busy = False
        self._timer: LoopTimer | None = None
        self._left: Callable[[], None] | None = None

    def leave(self, left: Callable[[], None]) -> None:
        """Leave the group: what was consumed is committed, its nodes are removed, and `left` is called."""
        self._left = left
        self._handle(Leave())

    def group_changed(self) -> None:
        """Follow a change of what was read: what the registries of the group call."""
        self._handle(GroupChanged())

    def connection_changed(self) -> None:
        """Follow a change of the connection."""
        now, before = self._zookeeper.session_id, self._session_id
        if now == before:
            return
        self._session_id = now
        if before:
            self._handle(Disconnected())
        if now:
            self._handle(Connected(now))

    def commit(self, offsets: Mapping[TopicPartition, int], done: Committed) -> None:
        """Commit offsets in their turn."""
        self._add(_Commit(offsets, done, self._session_id))

    def _handle(self, event: Event) -> None:
        self.state, actions = step(self.state, event, self._loop.clock())
        for action in actions:
            self._begin(action)
        self._keep_time()
        if self.state.phase is MembershipPhase.LEFT and self._left is not None:
            left, self._left = self._left, None
            left()

    def _begin(self, action: Action) -> None:
        match action:
            case StartFetching(owners):
                self._fetching.start(owners)
            case StopFetching(partitions, commit):
                consumed = self._fetching.stop(partitions)
                if commit and consumed:
                    self._add(_Commit(consumed, self._committed, self._session_id))
            case PauseFetching():
                self._fetching.pause()
            case ResumeFetching():
                self._fetching.resume()
            case ReportTrouble(reason):
                _log.warning("%s does not get its partitions: %s", self.state.rules.consumer_id, reason)
            case _:
                self._add(action)

    def _keep_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.state.deadline is not None:
            self._timer = self._loop.call_at(self.state.deadline, lambda: self._handle(TimePassed()))

    def _add(self, work: _Work) -> None:
        self._waiting.append(work)
        self._do_next()

    def _do_next(self) -> None:
        """Do the oldest request or commit, if no other one is under way."""
        if self._is_busy or not self._waiting:
            return
        self._is_busy = True
        work = self._waiting.popleft()
        if isinstance(work, _Commit):
            self._commit(work)
        else:
            self._loop.run(lambda: self._request(work), lambda outcome: self._answered(work, outcome))

    def _commit(self, commit: _Commit) -> None:
        # In another session the partitions may be other members', which have committed more by now.
        if commit.session_id and commit.session_id == self._session_id:
            self._offsets.commit(commit.offsets, lambda error: self._commit_ended(commit, error))
        else:
            self._commit_ended(commit, SessionExpired("the session has ended in which these were owned"))

    def _commit_ended(self, commit: _Commit, error: Exception | None) -> None:
        self._is_busy = False
        commit.done(error)
        self._do_next()

    def _answered(self, request: Request, outcome: Succeeded | Exception) -> None:
        self._is_busy = False
        if isinstance(outcome, Exception):
            if not isinstance(outcome, ZooKeeperError):
                _log.error("%s: %r", self.state.rules.consumer_id, outcome)
            self._handle(Failed(request.number, str(outcome)))
        else:
            self._handle(outcome)
        self._do_next()

    def _committed(self, error: Exception | None) -> None:
        if error is not None:
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
