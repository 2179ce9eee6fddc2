"""Membership in a classic group: joins, heartbeats, and the changes of the assignment that follow.

The engine's side finds out what has to change, and queues it in `changes`; the user's side applies each, at
the next `poll`, and reports it with `finished`. So partitions come and go only while no record of them is in
the user's hands.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.assignors import (
    ASSIGNORS,
    Assignor,
    SubscribedMember,
    grouped,
    ungrouped,
)
from tidelog.plugins.client.consumer.member_states import (
    BEATING,
    TRANSITIONS,
    ClassicMemberState,
    MemberEvent,
)
from tidelog.plugins.client.errors import ClientError, ErrorResponse
from tidelog.plugins.client.operations.classic_membership import (
    JoiningMember,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from tidelog.plugins.client.operations.group_offsets import GroupMetadata
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    protocol_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.schema import CodecError, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer, Task
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupResponse

_METADATA_VERSION: Final = 3
_GONE: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
"""Errors after which a member joins as a new one."""
_State = ClassicMemberState
_Event = MemberEvent


@attrs.frozen
class AssignmentChange:
    """Change of the assignment that the user's side has to apply.

    Attributes:
        kind: partitions are assigned, revoked or lost; "prepare" revokes none, but offsets are committed
        partitions: which
        generation: number of the join that it belongs to; a later one makes what follows from it void
    """

    kind: Literal["assigned", "revoked", "lost", "prepare"]
    partitions: frozenset[TopicPartition]
    generation: int


@attrs.frozen
class _Joined:
    """Result of joining and syncing."""

    member: GroupMetadata
    is_leader: bool
    partitions: frozenset[TopicPartition]
    counts: Mapping[str, int]


class GroupMembership:
    """Membership of one consumer.

    Attributes:
        failure: what the user's side has to raise, None for nothing
        member: identity for commits
        owned: the partitions that the user's side has
        changes: what it has to apply, in order
        listener: what it calls then
        state: where the member is
    """

    def __init__(
        self, engine: Engine, settings: ConsumerSettings, group: str, changed: Callable[[], None]
    ) -> None:
        self.member = GroupMetadata(group)
        self.owned: set[TopicPartition] = set()
        self.changes: deque[AssignmentChange] = deque()
        self.listener: RebalanceListener | None = None
        self.failure: ClientError | None = None
        self.state = ClassicMemberState.UNJOINED
        self._engine = engine
        self._settings = settings
        self._group = group
        self._changed = changed
        self._assignors = [ASSIGNORS[name] for name in settings.strategies]
        self._is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._topics: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._counts: Mapping[str, int] = {}
        self._is_leader = False
        self._last: frozenset[TopicPartition] = frozenset()
        self._gave_up = False
        self._joins = 0
        self._failures = 0
        self._task: Task[Any] | None = None
        self._beat_timer: EngineTimer | None = None
        self._watch_timer: EngineTimer | None = None
        self._polled_at = engine.clock()
        self._heard_at = engine.clock()
        self._retry = settings.client().retry

    # What the user's side calls.

    def subscribe(
        self, topics: Iterable[str], pattern: re.Pattern[str] | None, listener: RebalanceListener | None
    ) -> None:
        """Join with these topics and those that match the pattern, or change the subscription."""
        self._topics, self._pattern, self.listener = frozenset(topics), pattern, listener
        self._polled_at = self._engine.clock()
        if self._watch_timer is None:
            self._watch()
        self._happen(_Event.START if self.state in (_State.UNJOINED, _State.LEFT) else _Event.REBALANCE)

    def polled(self) -> None:
        """Note that the user is alive, and join again if the membership was lost."""
        self._polled_at = self._engine.clock()
        if self.state is _State.UNJOINED and not self.changes and self.failure is None and self._task is None:
            self._happen(_Event.START)

    @property
    def needs_poll(self) -> bool:
        """Return whether the user's side has something to do."""
        return bool(self.changes) or self.failure is not None or self.state is _State.UNJOINED

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics of the subscription, those that match a pattern included."""
        return self._topics

    def finished(self, change: AssignmentChange) -> None:
        """Continue after a change was applied."""
        if change.kind == "assigned":
            self.owned |= change.partitions
        else:
            self.owned -= change.partitions
        if change.kind == "lost":
            self.polled()
        if change.generation != self._joins:
            return
        if self.state is _State.PREPARING and change.kind in ("revoked", "prepare"):
            self._happen(_Event.PREPARED)
        elif self.state is _State.STABLE and change.kind == "revoked":
            self._gave_up = True
        elif self.state is _State.STABLE and self._gave_up:
            # What was given up has no owner before all have joined again.
            self._happen(_Event.REBALANCE)

    def leaving(self) -> Steps[None]:
        """Return the operation that leaves the group; a static member stays in it until its session ends."""
        member, was_in = self.member, self.state not in (_State.UNJOINED, _State.LEFT)
        self._happen(_Event.LEAVE)
        self.changes.clear()
        self.owned = set()
        self.member = GroupMetadata(self._group)
        is_left = was_in and bool(member.member_id) and member.group_instance_id is None
        return self._leave(member) if is_left else no_steps()

    # What follows from it.

    def _happen(self, event: MemberEvent) -> None:
        """Move to the next state, and do what is done there."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return
        before, self.state = self.state, state
        if event is not _Event.SYNCED and state is not before:
            self._stop_beating(keeps=state in BEATING)
        if state is _State.PREPARING and before is not _State.PREPARING:
            self._prepare()
        elif state is _State.JOINING:
            self._join()
        elif state is _State.STABLE:
            self._beat_later()
        elif state in (_State.UNJOINED, _State.LEFT):
            self._end_task()
            if state is _State.UNJOINED:
                self._lose()

    def _prepare(self) -> None:
        """Have the user give up everything, or with cooperative assignors nothing yet."""
        self.changes.clear()
        self._beat_later()
        kind: Literal["prepare", "revoked"] = "prepare" if self._is_cooperative else "revoked"
        partitions = frozenset[TopicPartition](() if self._is_cooperative else self.owned)
        if self.owned:
            self.changes.append(AssignmentChange(kind, partitions, self._joins))
            self._changed()
        else:
            self._happen(_Event.PREPARED)

    def _lose(self) -> None:
        """Have the user give up what belongs to others by now, and join as a new member after that."""
        self.changes.clear()
        self._joins += 1
        self._last = frozenset()
        self.member = GroupMetadata(self._group, group_instance_id=self._settings.group_instance_id)
        if self.owned:
            self.changes.append(AssignmentChange("lost", frozenset(self.owned), self._joins))
        self._changed()

    def _join(self) -> None:
        self._end_task()
        self._joins += 1
        self._gave_up = False
        number = self._joins
        operation = self._join_and_sync(self._engine.session)
        self._task = self._engine.spawn(operation, lambda outcome: self._joined(number, outcome))

    def _join_and_sync(self, session: Session) -> Steps[_Joined]:
        settings = self._settings
        joining = JoiningMember(
            self._group,
            self.member.member_id,
            settings.group_instance_id,
            round(settings.session_timeout_ms),
            round(settings.max_poll_interval_ms),
            [],
            self._named,
        )
        known: ClusterMetadata | None = None
        if self._pattern is not None:
            known = yield from metadata(session)
        topics = self._subscribed(known)
        protocols = [(each.name, self._metadata(each, topics)) for each in self._assignors]
        answer = yield from join_group(session, attrs.evolve(joining, protocols=protocols))
        self._happen(_Event.JOINED)
        protocol = answer.protocol_name or ""
        member = GroupMetadata(
            self._group, answer.generation_id, answer.member_id, settings.group_instance_id
        )
        # Already now: what happens from here on concerns that member.
        self.member = member
        is_leader = answer.leader == answer.member_id
        assignments: dict[str, bytes] = {}
        counts: Mapping[str, int] = {}
        if is_leader:
            assignments, counts = yield from self._divide(session, answer, protocol)
        wait_ms = round(settings.max_poll_interval_ms)
        assignment = yield from sync_group(session, member, protocol, assignments, wait_ms)
        try:
            partitions = frozenset(ungrouped(read_assignment(assignment).assigned_partitions))
        except CodecError as error:
            raise ClientError(f"group {self._group!r}: its leader has sent no assignment: {error}") from error
        return _Joined(member, is_leader, partitions, counts)

    def _named(self, member_id: str) -> None:
        self.member = GroupMetadata(
            self._group, member_id=member_id, group_instance_id=self._settings.group_instance_id
        )

    def _subscribed(self, known: ClusterMetadata | None) -> frozenset[str]:
        if self._pattern is None or known is None:
            return self._topics
        matches = self._pattern.fullmatch
        found = {name for name, topic in known.topics.items() if not topic.is_internal and matches(name)}
        self._topics = frozenset(found)
        return self._topics

    def _metadata(self, assignor: Assignor, topics: frozenset[str]) -> bytes:
        generation = self.member.generation if self.owned else -1
        subscription = ConsumerProtocolSubscription(
            topics=sorted(topics),
            user_data=assignor.user_data(self._last, self.member.generation),
            owned_partitions=grouped(self.owned),
            generation_id=generation,
            rack_id=self._settings.client_rack or None,
        )
        return _METADATA_VERSION.to_bytes(2) + encode(subscription, _METADATA_VERSION)

    def _divide(
        self, session: Session, answer: JoinGroupResponse, protocol: str
    ) -> Steps[tuple[dict[str, bytes], Mapping[str, int]]]:
        """Return the assignment of each member, and the numbers of partitions that they are based on."""
        assignor = ASSIGNORS[protocol]
        members: list[SubscribedMember] = []
        versions: dict[str, int] = {}
        for each in answer.members:
            content = bytes(each.metadata)
            try:
                subscription = read_subscription(content)
            except CodecError as error:
                raise ClientError(
                    f"group {self._group!r}: {each.member_id} is no consumer: {error}"
                ) from error
            members.append(assignor.member(each.member_id, each.group_instance_id, subscription))
            versions[each.member_id] = protocol_version(content)
        wanted = sorted({topic for member in members for topic in member.topics})
        counts = yield from _partition_counts(session, wanted)
        assigned = assignor.assign(counts, members)
        return {
            member_id: write_assignment(
                ConsumerProtocolAssignment(assigned_partitions=grouped(partitions)), versions[member_id]
            )
            for member_id, partitions in assigned.items()
        }, counts

    def _joined(self, number: int, outcome: _Joined | ClientError) -> None:
        self._task = None
        if number != self._joins or self._engine.is_closed:
            return
        if isinstance(outcome, ClientError):
            self._refused(outcome, self._join_again)
            return
        self._failures = 0
        self._is_leader, self._counts, self._last = outcome.is_leader, outcome.counts, outcome.partitions
        self._heard_at = self._engine.clock()
        self._happen(_Event.SYNCED)
        removed, added = self.owned - outcome.partitions, outcome.partitions - self.owned
        if removed:
            self.changes.append(AssignmentChange("revoked", frozenset(removed), number))
        self.changes.append(AssignmentChange("assigned", frozenset(added), number))
        self._changed()

    def _refused(self, error: ClientError, retry: Callable[[], None]) -> None:
        """Continue after an error of a request of the member."""
        code = error.code if isinstance(error, ErrorResponse) else None
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._happen(_Event.REBALANCE)
        elif code in _GONE:
            self._happen(_Event.LOST)
        elif error.retriable or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._failures += 1
            when = self._engine.clock() + self._retry.pause_s(self._failures - 1)
            self._engine.call_at(when, retry)
        else:
            self.failure = error
            self._happen(_Event.LOST)
            self._changed()

    def _join_again(self) -> None:
        if self.state in (_State.JOINING, _State.SYNCING) and self._task is None:
            self.state = _State.JOINING
            self._join()

    def _beat_later(self) -> None:
        if self._beat_timer is None:
            when = self._engine.clock() + self._settings.heartbeat_interval_ms / 1000
            self._beat_timer = self._engine.call_at(when, self._beat)

    def _stop_beating(self, *, keeps: bool) -> None:
        if self._beat_timer is not None and not keeps:
            self._beat_timer.cancel()
            self._beat_timer = None

    def _beat(self) -> None:
        self._beat_timer = None
        if self.state not in BEATING or self._engine.is_closed or not self.member.member_id:
            return
        idle_s = self._engine.clock() - self._polled_at
        if idle_s * 1000 > self._settings.max_poll_interval_ms:
            # Others continue with what this one does not poll; the next poll joins again.
            self._engine.spawn(self._leave(self.member), lambda _outcome: None)
            self._happen(_Event.LOST)
            return
        number = self._joins
        operation = heartbeat(self._engine.session, self.member)
        self._engine.spawn(operation, lambda outcome: self._beaten(number, outcome))

    def _beaten(self, number: int, outcome: ClientError | None) -> None:
        if number != self._joins or self._engine.is_closed or self.state not in BEATING:
            return
        if outcome is None:
            self._heard_at = self._engine.clock()
        elif self.state is _State.STABLE or not _is_rebalance(outcome):
            silent_s = self._engine.clock() - self._heard_at
            if outcome.retriable and silent_s * 1000 > self._settings.session_timeout_ms:
                self._happen(_Event.LOST)
                return
            self._refused(outcome, self._beat_later)
            return
        self._beat_later()

    def _watch(self) -> None:
        """Look at the topics from time to time: new partitions and new topics need a rebalance."""
        when = self._engine.clock() + self._settings.metadata_max_age_ms / 1000
        self._watch_timer = self._engine.call_at(when, self._look_at_topics)

    def _look_at_topics(self) -> None:
        if self._engine.is_closed or self.state is _State.LEFT:
            self._watch_timer = None
            return
        topics = None if self._pattern is not None else sorted(self._topics | set(self._counts))
        self._engine.spawn(metadata(self._engine.session, topics), self._looked_at_topics)
        self._watch()

    def _looked_at_topics(self, outcome: ClusterMetadata | ClientError) -> None:
        if isinstance(outcome, ClientError) or self.state is not _State.STABLE:
            return
        before = self._topics
        is_other = self._subscribed(outcome) != before
        counts = {name: len(topic.partitions) for name, topic in outcome.topics.items()}
        if self._is_leader:
            watched = self._topics.union(self._counts)
            is_other |= any(counts.get(topic, 0) != self._counts.get(topic, 0) for topic in watched)
        if is_other:
            self._happen(_Event.REBALANCE)

    def _leave(self, member: GroupMetadata) -> Steps[None]:
        try:
            yield from leave_group(self._engine.session, member, "the consumer is closed or does not poll")
        except ClientError:
            # The coordinator drops it when its session ends.
            return

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


def _partition_counts(session: Session, topics: list[str]) -> Steps[Mapping[str, int]]:
    found = yield from metadata(session, topics)
    return {name: len(topic.partitions) for name, topic in found.topics.items()}


def no_steps() -> Steps[None]:
    """Return an operation that does nothing."""
    yield from ()


def _is_rebalance(error: ClientError) -> bool:
    return isinstance(error, ErrorResponse) and error.code is ErrorCode.REBALANCE_IN_PROGRESS
