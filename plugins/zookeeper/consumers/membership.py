"""One member of a group as a state machine: a state and an event in, the next state and actions out.

                       ┌──────────── connected, in a new session or the same ───────────┐
                       ▼                                                                │
    away ──────▶ registering ──▶ reading ──▶ releasing ──▶ claiming ──▶ owning          │
                       ▲            ▲  ▲                      │           │             │
                       │ failed     │  └──── group changed ───┼───────────┘             │
                       └─ waiting ◀─┴───── taken, failed ─────┘        disconnected ────┘

A member reads the registries, releases what is not its own in this reading, claims what is missing, and
waits for changes. It never fetches a partition whose node it does not own, and no one can own one twice: a
claim creates an ephemeral node. While a claim fails, since its owner has not released it, it reads again
after a pause. Members cannot wait for each other in a circle: each releases first. These are steps 8 and 9 of
the algorithm of the documentation, but that a partition that stays with its stream is neither released nor
interrupted.

A member that has lost the connection cannot know whether its session expires, and others claim its
partitions. So it pauses before that can be. Source: `ZKRebalancerListener` of Apache Kafka 0.8.2, which does
not pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.zookeeper.consumers.assignment import GroupView, Owners, assign

_NOTHING: Final[Owners] = {}


class MembershipPhase(Enum):
    """What a member waits for."""

    AWAY = "away"
    REGISTERING = "registering"
    READING = "reading"
    RELEASING = "releasing"
    CLAIMING = "claiming"
    WAITING = "waiting"
    OWNING = "owning"
    LEAVING = "leaving"
    LEFT = "left"


@attrs.frozen
class MembershipRules:
    """The settings of a member; times are in seconds.

    `max_attempts` claims in vain in a row are reported, and it keeps trying. After `pause_after_s` without a
    connection it stops fetching; together with the time in which a lost connection is noticed, that has to be
    less than the timeout of the session. Changes are followed at most once in `min_interval_s`.
    """

    consumer_id: str
    backoff_s: float = 2.0
    max_attempts: int = 4
    pause_after_s: float = 1.0
    min_interval_s: float = 0.1
    with_internal: bool = False


# Events.


class Connected(NamedTuple):
    """There is a connection, in this session."""

    session_id: int


class Disconnected(NamedTuple):
    """The connection was lost; the session may expire."""


class GroupChanged(NamedTuple):
    """Members, brokers, topics or partitions have changed since they were read."""


class Succeeded(NamedTuple):
    """That request was done; `view` is what `ReadGroup` read, `created` what `Claim` created."""

    number: int
    view: GroupView | None = None
    created: frozenset[TopicPartition] = frozenset()


class Failed(NamedTuple):
    """That request was not done, or no one knows."""

    number: int
    reason: str


class TimePassed(NamedTuple):
    """The deadline of the state has come."""


class Leave(NamedTuple):
    """The member is to leave the group."""


Event: TypeAlias = Connected | Disconnected | GroupChanged | Succeeded | Failed | TimePassed | Leave


# Actions. Those with a number are requests: one is done after the other, also if an answer does not count any
# more, and `Succeeded` or `Failed` follows. The others are done at once.


class Register(NamedTuple):
    """Create the node of the member; done if it is there in this session."""

    number: int


class ReadGroup(NamedTuple):
    """Read the registries, so that each later change is a `GroupChanged`; of owners only `may_own`."""

    number: int


class Release(NamedTuple):
    """Remove the nodes of owners, each if it is this member's."""

    number: int
    partitions: frozenset[TopicPartition]


class Claim(NamedTuple):
    """Create the nodes of owners; `created` are those that were not another member's."""

    number: int
    owners: Owners


class Unregister(NamedTuple):
    """Remove the node of the member."""

    number: int


class StartFetching(NamedTuple):
    """Read the offsets of these partitions, which are owned now, and fetch them into their streams."""

    owners: Owners


class StopFetching(NamedTuple):
    """Fetch these no longer; with `commit` store how far they were consumed, before the next request."""

    partitions: frozenset[TopicPartition]
    commit: bool


class PauseFetching(NamedTuple):
    """Fetch nothing for now: another member may own what this one does."""


class ResumeFetching(NamedTuple):
    """Fetch again what was paused: this member owns it still."""


class ReportTrouble(NamedTuple):
    """Log that the member does not get what it is to own."""

    reason: str


Request: TypeAlias = Register | ReadGroup | Release | Claim | Unregister
Action: TypeAlias = Request | StartFetching | StopFetching | PauseFetching | ResumeFetching | ReportTrouble


@attrs.frozen
class Membership:
    """A member at one moment.

    `deadline`: when `TimePassed` is due, None if no time is waited for. `owned` are the partitions whose
    nodes it has, as far as it knows, and `fetched` those that it fetches, a part of them. `number` is that of
    the last request; answers to earlier ones do not count. `is_stale`: the group has changed since it was
    read.
    """

    rules: MembershipRules
    phase: MembershipPhase = MembershipPhase.AWAY
    session_id: int = 0
    is_connected: bool = False
    is_paused: bool = False
    is_leaving: bool = False
    is_stale: bool = False
    number: int = 0
    attempts: int = 0
    deadline: float | None = None
    read_at: float = float("-inf")
    owned: Owners = attrs.field(factory=lambda: _NOTHING)
    fetched: Owners = attrs.field(factory=lambda: _NOTHING)
    wanted: Owners = attrs.field(factory=lambda: _NOTHING)

    @property
    def may_own(self) -> frozenset[TopicPartition]:
        """All partitions whose nodes it may have: also those of a claim or release whose answer was lost."""
        return frozenset(self.owned.keys() | self.wanted.keys())

    @property
    def is_quiet(self) -> bool:
        """Whether it owns and fetches all that it is to, and knows of no change."""
        return self.phase is MembershipPhase.OWNING and not self.is_stale


Step: TypeAlias = tuple[Membership, Sequence[Action]]


def step(state: Membership, event: Event, now: float) -> Step:
    """Return the next state, and what is to be done, at the time `now` in seconds."""
    if state.phase is MembershipPhase.LEFT:
        return state, ()
    match event:
        case Connected(session_id):
            return _connected(state, session_id)
        case Disconnected():
            return _disconnected(state, now)
        case GroupChanged():
            return _changed(attrs.evolve(state, is_stale=True), now)
        case Succeeded() if event.number == state.number:
            return _succeeded(state, event, now)
        case Failed() if event.number == state.number:
            return _failed(state, event, now)
        case TimePassed() if state.deadline is not None and now >= state.deadline:
            return _time_passed(attrs.evolve(state, deadline=None))
        case Leave():
            return _leave(state)
        case _:
            # An answer to what was asked before the connection was lost, or a deadline that has moved.
            return state, ()


def _connected(state: Membership, session_id: int) -> Step:
    actions: list[Action] = []
    if session_id != state.session_id:
        # What it owned went with the session before, and may be another member's: nothing is committed.
        if state.fetched:
            actions.append(StopFetching(frozenset(state.fetched), commit=False))
        state = attrs.evolve(state, owned=_NOTHING, fetched=_NOTHING)
    if state.is_paused:
        actions.append(ResumeFetching())
    state = attrs.evolve(
        state, session_id=session_id, is_connected=True, is_paused=False, deadline=None, attempts=0
    )
    after, more = _register(state)
    return after, (*actions, *more)


def _disconnected(state: Membership, now: float) -> Step:
    if not state.is_connected:
        return state, ()
    if state.is_leaving:
        # The driver ends the session, or it expires: the nodes go with it.
        return attrs.evolve(state, phase=MembershipPhase.LEFT, is_connected=False, deadline=None), ()
    # No answer counts any more.
    return attrs.evolve(
        state,
        phase=MembershipPhase.AWAY,
        is_connected=False,
        number=state.number + 1,
        deadline=now + state.rules.pause_after_s,
    ), ()


def _changed(state: Membership, now: float) -> Step:
    """Read again at once where that is possible; later phases look at `is_stale` themselves."""
    if state.phase is not MembershipPhase.OWNING:
        return state, ()
    due = state.read_at + state.rules.min_interval_s
    return _read(state) if now >= due else (attrs.evolve(state, deadline=due), ())


def _time_passed(state: Membership) -> Step:
    if state.phase is MembershipPhase.AWAY:
        return attrs.evolve(state, is_paused=True), (PauseFetching(),)
    if state.phase is MembershipPhase.WAITING:
        # Whatever failed, registering is done first: its answer may be what was lost.
        return _register(state)
    return _read(state) if state.phase is MembershipPhase.OWNING and state.is_stale else (state, ())


def _register(state: Membership) -> Step:
    state = attrs.evolve(state, phase=MembershipPhase.REGISTERING, number=state.number + 1)
    return state, (Register(state.number),)


def _read(state: Membership) -> Step:
    # Before the registries are read, which also watches them: what changes from then on is another change.
    state = attrs.evolve(
        state, phase=MembershipPhase.READING, number=state.number + 1, is_stale=False, deadline=None
    )
    return state, (ReadGroup(state.number),)


def _succeeded(state: Membership, event: Succeeded, now: float) -> Step:
    match state.phase:
        case MembershipPhase.REGISTERING:
            return _read(state)
        case MembershipPhase.READING if event.view is not None:
            state = attrs.evolve(state, read_at=now)
            if state.rules.consumer_id not in event.view.members:
                return _wait(state, "its node in the registry of consumers was removed", now)
            return _decide(state, event.view)
        case MembershipPhase.RELEASING:
            return _claim(state, now)
        case MembershipPhase.CLAIMING:
            return _claimed(state, event.created, now)
        case MembershipPhase.LEAVING if state.may_own:
            return _unregister(attrs.evolve(state, owned=_NOTHING, wanted=_NOTHING))
        case MembershipPhase.LEAVING:
            return attrs.evolve(state, phase=MembershipPhase.LEFT), ()
        case _:
            return state, ()


def _decide(state: Membership, view: GroupView) -> Step:
    """Compare what is owned with what is to be, and release the difference."""
    consumer_id = state.rules.consumer_id
    if not view.has_brokers:
        # There is no one to fetch from, and a new assignment would be for nothing.
        wanted: Owners = dict(view.owned)
    else:
        wanted = assign(view, consumer_id, with_internal=state.rules.with_internal)
    kept = {partition: stream for partition, stream in view.owned.items() if wanted.get(partition) == stream}
    dropped = frozenset(view.owned.keys() - kept.keys())
    stopped = frozenset(
        partition for partition, stream in state.fetched.items() if kept.get(partition) != stream
    )
    fetched = {partition: stream for partition, stream in state.fetched.items() if partition not in stopped}
    state = attrs.evolve(
        state,
        phase=MembershipPhase.RELEASING,
        number=state.number + 1,
        wanted=wanted,
        # With what is about to be released: if that fails it is still this member's.
        owned=view.owned,
        fetched=fetched,
    )
    actions: list[Action] = []
    if stopped:
        # Before the release: the next owner begins where this one has ended.
        actions.append(StopFetching(stopped, commit=stopped <= view.owned.keys()))
    return state, (*actions, Release(state.number, dropped))


def _claim(state: Membership, now: float) -> Step:
    kept = {part: stream for part, stream in state.owned.items() if state.wanted.get(part) == stream}
    state = attrs.evolve(state, owned=kept)
    missing = {
        partition: stream for partition, stream in state.wanted.items() if partition not in state.owned
    }
    if not missing:
        return _claimed(state, frozenset(), now)
    state = attrs.evolve(state, phase=MembershipPhase.CLAIMING, number=state.number + 1)
    return state, (Claim(state.number, missing),)


def _claimed(state: Membership, created: frozenset[TopicPartition], now: float) -> Step:
    owned = {**state.owned, **{partition: state.wanted[partition] for partition in created}}
    new = {partition: stream for partition, stream in owned.items() if partition not in state.fetched}
    actions: tuple[Action, ...] = (StartFetching(new),) if new else ()
    state = attrs.evolve(state, owned=owned, fetched=owned)
    if owned.keys() != state.wanted.keys():
        taken = sorted(map(str, state.wanted.keys() - owned.keys()))
        after, more = _wait(state, f"owned by other members: {', '.join(taken[:10])}", now)
    else:
        after, more = _own(attrs.evolve(state, attempts=0), now)
    return after, (*actions, *more)


def _own(state: Membership, now: float) -> Step:
    state = attrs.evolve(state, phase=MembershipPhase.OWNING, deadline=None)
    return _changed(state, now) if state.is_stale else (state, ())


def _failed(state: Membership, event: Failed, now: float) -> Step:
    if state.phase is MembershipPhase.LEAVING:
        return attrs.evolve(state, phase=MembershipPhase.LEFT), ()
    return _wait(state, event.reason, now)


def _wait(state: Membership, reason: str, now: float) -> Step:
    """Pause, and then begin again."""
    attempts = state.attempts + 1
    is_many = attempts % state.rules.max_attempts == 0
    state = attrs.evolve(
        state,
        phase=MembershipPhase.WAITING,
        number=state.number + 1,
        attempts=attempts,
        deadline=now + state.rules.backoff_s,
    )
    return state, (ReportTrouble(reason),) if is_many else ()


def _leave(state: Membership) -> Step:
    if state.is_leaving:
        return state, ()
    actions: list[Action] = []
    if state.fetched:
        actions.append(StopFetching(frozenset(state.fetched), commit=state.is_connected))
    state = attrs.evolve(state, is_leaving=True, fetched=_NOTHING, deadline=None)
    if not state.is_connected:
        return attrs.evolve(state, phase=MembershipPhase.LEFT), actions
    after, more = _unregister(state)
    return after, (*actions, *more)


def _unregister(state: Membership) -> Step:
    """Release what may be owned, and then leave the registry of consumers: others claim when that changes."""
    state = attrs.evolve(state, phase=MembershipPhase.LEAVING, number=state.number + 1)
    if state.may_own:
        return state, (Release(state.number, state.may_own),)
    return state, (Unregister(state.number),)
