"""Members of a group over registries in memory, with time, connections and crashes that a test controls.

Everything takes time: a request gets to ZooKeeper, and its answer gets back. Where the connection is cut in
between, no one knows whether the request was done. A session expires `SESSION_S` after ZooKeeper last heard
of its client.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers import membership
from tidelog.plugins.zookeeper.consumers.assignment import GroupView
from tidelog.plugins.zookeeper.consumers.membership import (
    Claim,
    Connected,
    Disconnected,
    Event,
    Failed,
    GroupChanged,
    Leave,
    Membership,
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
from tidelog.plugins.zookeeper.consumers.subscriptions import Subscription

SESSION_S = 6.0
NOTICED_S = 3.0
"""The longest that a client takes to notice a cut connection."""
PAUSE_S = 2.0
LATENCY_S = 0.2


@attrs.define
class Clock:
    """What happens when; `now` in seconds."""

    now: float = 0.0
    _waiting: list[tuple[float, int, Callable[[], object]]] = attrs.field(factory=list)
    _numbers: count[int] = attrs.field(factory=count)

    def after(self, seconds: float, happens: Callable[[], object]) -> None:
        heapq.heappush(self._waiting, (self.now + seconds, next(self._numbers), happens))

    def run_until(self, end: float, check: Callable[[], None]) -> None:
        while self._waiting and self._waiting[0][0] <= end:
            self.now, _, happens = heapq.heappop(self._waiting)
            happens()
            check()
        self.now = end


@attrs.define
class Registries:
    """What is in ZooKeeper: members and owners with their sessions, topics with their partitions."""

    clock: Clock
    random: Random
    members: dict[str, tuple[Subscription, int]] = attrs.field(factory=dict)
    owners: dict[TopicPartition, tuple[str, int]] = attrs.field(factory=dict)
    topics: dict[str, int] = attrs.field(factory=dict)
    has_brokers: bool = True
    sessions: set[int] = attrs.field(factory=set)
    watchers: list[SimulatedMember] = attrs.field(factory=list)

    def change(self) -> None:
        """Notify those who have read since the last change, and watch no longer."""
        watchers, self.watchers = self.watchers, []
        for each in watchers:
            self.clock.after(self.random.uniform(0, LATENCY_S), each.notice_change)

    def expire(self, session_id: int) -> None:
        self.sessions.discard(session_id)
        self.members = {name: found for name, found in self.members.items() if found[1] != session_id}
        self.owners = {each: found for each, found in self.owners.items() if found[1] != session_id}
        self.change()

    def view(self, consumer_id: str, session_id: int, may_own: frozenset[TopicPartition]) -> GroupView:
        return GroupView(
            {name: subscription for name, (subscription, _) in self.members.items()},
            {topic: range(partitions) for topic, partitions in self.topics.items()},
            {
                each: stream
                for each, (stream, session) in self.owners.items()
                if each in may_own and session == session_id and stream.startswith(f"{consumer_id}-")
            },
            self.has_brokers,
        )


@attrs.define(eq=False)
class SimulatedMember:
    """A process with one member; `fetching` is what it really fetches."""

    registries: Registries
    subscription: Subscription
    state: Membership
    session_id: int = 0
    last_session: int = 0
    is_linked: bool = False
    has_crashed: bool = False
    is_paused: bool = False
    fetching: dict[TopicPartition, str] = attrs.field(factory=dict)
    requests: list[Request] = attrs.field(factory=list)
    troubles: int = 0
    _link: int = 0
    _has_unnoticed_cut: bool = False
    _is_busy: bool = False

    @property
    def clock(self) -> Clock:
        return self.registries.clock

    @property
    def consumer_id(self) -> str:
        return self.state.rules.consumer_id

    @property
    def fetched_now(self) -> set[TopicPartition]:
        """What it fetches at this moment."""
        return set() if self.has_crashed or self.is_paused else {*self.fetching}

    # The connection.

    def link(self) -> None:
        """Reach ZooKeeper, in the same session if that has not expired."""
        if self.has_crashed or self.is_linked:
            return
        if self._has_unnoticed_cut:
            self._notice_cut(self._link)
        self._link += 1
        self.is_linked = True
        if self.session_id not in self.registries.sessions:
            self.session_id = self.registries.random.getrandbits(62) + 1
            self.registries.sessions.add(self.session_id)
        link, session_id = self._link, self.session_id
        self._soon(lambda: self._come_up(link, session_id))

    def cut(self) -> None:
        """Lose the connection: the session expires unless it is linked again in time."""
        if not self.is_linked:
            return
        self._link += 1
        self.is_linked = False
        self._has_unnoticed_cut = True
        link, session_id = self._link, self.session_id
        noticed = self.registries.random.uniform(0, NOTICED_S)
        self.clock.after(noticed, lambda: self._notice_cut(link))
        self.clock.after(SESSION_S, lambda: self._expire(link, session_id))

    def crash(self) -> None:
        self.has_crashed = True
        self.cut()

    def leave(self) -> None:
        self.handle(Leave())

    def _notice_cut(self, link: int) -> None:
        if link == self._link and self._has_unnoticed_cut:
            self._has_unnoticed_cut = False
            self.handle(Disconnected())

    def _come_up(self, link: int, session_id: int) -> None:
        if link == self._link:
            self.handle(Connected(session_id))

    def _expire(self, link: int, session_id: int) -> None:
        if link == self._link:
            self.registries.expire(session_id)

    def _soon(self, happens: Callable[[], object]) -> None:
        self.clock.after(self.registries.random.uniform(0, LATENCY_S), happens)

    def notice_change(self) -> None:
        # Where it is not linked ZooKeeper notifies it later, and it reads everything again then.
        self.handle(GroupChanged())

    # The state machine.

    def handle(self, event: Event) -> None:
        if self.has_crashed:
            return
        before = self.state.deadline
        self.state, actions = step(self.state, event, self.clock.now)
        for action in actions:
            match action:
                case StartFetching(owners):
                    self.fetching.update(owners)
                case StopFetching(partitions, _):
                    for each in partitions:
                        del self.fetching[each]
                case PauseFetching():
                    self.is_paused = True
                case ResumeFetching():
                    self.is_paused = False
                case ReportTrouble():
                    self.troubles += 1
                case _:
                    self.requests.append(action)
        if self.state.deadline is not None and self.state.deadline != before:
            self.clock.after(self.state.deadline - self.clock.now, lambda: self.handle(TimePassed()))
        self._send_next()
        if self.state.phase is membership.MembershipPhase.LEFT and not self._is_busy and self.is_linked:
            # The process ends its session.
            self.is_linked = False
            self._link += 1
            self.registries.expire(self.session_id)

    # Requests.

    def _send_next(self) -> None:
        """Send the oldest request, if no other one waits for its answer."""
        if self.requests and not self._is_busy:
            self._is_busy = True
            self._send(self.requests.pop(0))

    def _send(self, request: Request) -> None:
        link = self._link
        if not self.is_linked:
            self.clock.after(LATENCY_S, lambda: self._answer(Failed(request.number, "no connection")))
            return
        self._soon(lambda: self._arrive(request, link, frozenset()))

    def _arrive(self, request: Request, link: int, created: frozenset[TopicPartition]) -> None:
        if self._link != link:
            self._answer(Failed(request.number, "the connection was lost"))
            return
        if isinstance(request, Claim) and len(created) < len(request.owners):
            self._claim_next(request, link, created)
            return
        view = self._do(request)
        owners = self.registries.owners
        done = frozenset(each for each in created if owners.get(each, ("", 0))[1] == self.session_id)
        self._soon(lambda: self._come_back(request, link, Succeeded(request.number, view, done)))

    def _claim_next(self, request: Claim, link: int, tried: frozenset[TopicPartition]) -> None:
        """Claims are requests of their own: others come in between."""
        each = sorted(request.owners.keys() - tried)[0]
        self.registries.owners.setdefault(each, (request.owners[each], self.session_id))
        self._soon(lambda: self._arrive(request, link, tried | {each}))

    def _do(self, request: Request) -> GroupView | None:
        registries = self.registries
        match request:
            case Register():
                registries.members[self.consumer_id] = self.subscription, self.session_id
                registries.change()
            case ReadGroup():
                registries.watchers.append(self)
                return registries.view(self.consumer_id, self.session_id, self.state.may_own)
            case Release(_, partitions):
                for each in partitions:
                    stream, session = registries.owners.get(each, ("", 0))
                    if session == self.session_id and stream.startswith(f"{self.consumer_id}-"):
                        del registries.owners[each]
            case Unregister():
                registries.members.pop(self.consumer_id, None)
                registries.change()
            case Claim():
                pass
        return None

    def _come_back(self, request: Request, link: int, event: Succeeded) -> None:
        is_same = self._link == link
        self._answer(event if is_same else Failed(request.number, "the connection was lost"))

    def _answer(self, event: Event) -> None:
        self._is_busy = False
        self.handle(event)
        self._send_next()


@attrs.define
class Group:
    """All members that ever were, and what holds for them at any moment."""

    registries: Registries
    members: list[SimulatedMember] = attrs.field(factory=list)

    def join(self, name: str, subscription: Subscription) -> SimulatedMember:
        rules = MembershipRules(name, backoff_s=1.0, pause_after_s=PAUSE_S)
        member = SimulatedMember(self.registries, subscription, Membership(rules))
        self.members.append(member)
        member.link()
        return member

    def check(self) -> None:
        """No partition is fetched by two members, and none by one that does not own it and is connected."""
        fetched: dict[TopicPartition, str] = {}
        for member in self.members:
            for each in member.fetched_now:
                assert each not in fetched, f"{each}: {fetched[each]} and {member.consumer_id}"
                fetched[each] = member.consumer_id
                if member.is_linked:
                    owner = self.registries.owners.get(each)
                    assert owner == (member.fetching[each], member.session_id), f"{each}: {owner}"

    @property
    def living(self) -> list[SimulatedMember]:
        return [
            each
            for each in self.members
            if not each.has_crashed and each.state.phase is not membership.MembershipPhase.LEFT
        ]
