"""Membership in a classic group: joins, heartbeats, and the changes of the assignment that follow.

Source: Apache Kafka 4.4, `AbstractCoordinator` and `ConsumerCoordinator`; KIP-62, KIP-345, KIP-429.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.assignors import (
    ASSIGNORS,
    NO_GENERATION,
    Assignor,
    SubscribedMember,
    grouped,
    ungrouped,
)
from tidelog.plugins.client.consumer.classic_member_states import (
    BEATING,
    TRANSITIONS,
    ClassicMemberEvent,
    ClassicMemberState,
)
from tidelog.plugins.client.consumer.group_errors import GroupReaction, GroupRequest, reaction_to
from tidelog.plugins.client.consumer.membership import AssignmentChange, GroupMembership, no_steps
from tidelog.plugins.client.errors import ClientError
from tidelog.plugins.client.operations.classic_membership import (
    JoiningMember,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
)
from tidelog.plugins.client.operations.group_offsets import GroupMetadata
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.steps import Pause
from tidelog.plugins.protocol_kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    protocol_version,
    read_assignment,
    read_subscription,
    write_assignment,
)
from tidelog.plugins.schema import CodecError, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.consumer.rack_matching import PartitionRacks
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.protocol_kafka.messages.join_group import JoinGroupResponse

_METADATA_VERSION: Final = 3
_State = ClassicMemberState
_Event = ClassicMemberEvent


@attrs.frozen
class _Partitions:
    """Which partitions there are: what an assignment is based on."""

    counts: Mapping[str, int]
    racks: PartitionRacks

    @classmethod
    def of(cls, cluster: ClusterMetadata) -> _Partitions:
        """Return the partitions of all topics in it."""
        counts = {name: len(topic.partitions) for name, topic in cluster.topics.items()}
        return cls(counts, cluster.partition_racks())

    def have_changed(self, now: _Partitions, topics: Iterable[str], *, are_racks_followed: bool) -> bool:
        """Return whether topics have other partitions now, or their replicas are in other racks."""
        for topic in topics:
            count = self.counts.get(topic, 0)
            if now.counts.get(topic, 0) != count:
                return True
            if are_racks_followed and any(
                self.racks.get(each) != now.racks.get(each)
                for each in (TopicPartition(topic, number) for number in range(count))
            ):
                return True
        return False


_NO_PARTITIONS: Final = _Partitions({}, {})


@attrs.frozen
class _Joined:
    """Result of joining and syncing."""

    is_leader: bool
    owned: frozenset[TopicPartition]
    divided: _Partitions


class ClassicGroupMembership(GroupMembership):
    """Membership of one consumer in a classic group.

    Attributes:
        state: where the member is
    """

    def __init__(
        self, engine: Engine, settings: ConsumerSettings, group: str, changed: Callable[[], None]
    ) -> None:
        super().__init__(engine, settings, group, changed)
        self.state = ClassicMemberState.UNJOINED
        self._assignors = [ASSIGNORS[name] for name in settings.strategies]
        self._is_cooperative = all(each.is_cooperative for each in self._assignors)
        self._divided = _NO_PARTITIONS
        self._is_leader = False
        self._last: frozenset[TopicPartition] = frozenset()
        self._gave_up = False
        self._id = ""
        self._watch_timer: EngineTimer | None = None
        self._heard_at = engine.clock()

    def leaving(self) -> Steps[None]:
        """Return the operation that leaves the group; a static member stays in it until its session ends."""
        was_in = self.state not in (_State.UNJOINED, _State.LEFT)
        self._happen(_Event.LEAVE)
        return self._leave(self._id) if was_in else no_steps()

    # What the protocols do.

    @property
    def _is_out(self) -> bool:
        return self.state is _State.UNJOINED

    def _start(self) -> None:
        self._happen(_Event.START)

    def _resubscribed(self) -> None:
        if self._watch_timer is None:
            self._watch()
        self._happen(_Event.START if self.state in (_State.UNJOINED, _State.LEFT) else _Event.REBALANCE)

    def _applied(self, change: AssignmentChange) -> None:
        if self.state is _State.PREPARING and change.kind in ("revoked", "prepare"):
            self._happen(_Event.PREPARED)
        elif self.state is _State.STABLE and change.kind == "revoked":
            self._gave_up = True
        elif self.state is _State.STABLE and self._gave_up:
            # What was given up has no owner before all have joined again.
            self._happen(_Event.REBALANCE)

    def _lost(self) -> None:
        self._happen(_Event.LOST)

    def _rebalance(self) -> None:
        self._happen(_Event.REBALANCE)

    # What follows from it.

    def _happen(self, event: ClassicMemberEvent) -> None:
        """Move to the next state, and do what is done there."""
        state = TRANSITIONS.get((self.state, event))
        if state is None:
            return
        before, self.state = self.state, state
        if state not in BEATING:
            self._stop_beating()
        if state is _State.PREPARING and before is not _State.PREPARING:
            self._prepare()
        elif state is _State.JOINING:
            self._join()
        elif state is _State.STABLE:
            self._beat_later()
        elif state is _State.LEFT:
            self._end_task()
        elif state is _State.UNJOINED:
            self._lose()

    def _prepare(self) -> None:
        """Have the user give up everything, or with cooperative assignors nothing yet."""
        self.changes.clear()
        self._beat_later()
        kind: Literal["prepare", "revoked"] = "prepare" if self._is_cooperative else "revoked"
        partitions = frozenset[TopicPartition](() if self._is_cooperative else self.owned)
        if self.owned:
            self.changes.append(AssignmentChange(kind, partitions, self.joins))
            self._changed()
        else:
            self._happen(_Event.PREPARED)

    def _lose(self) -> None:
        """Have the user give up what belongs to others by now, and join as a new member after that."""
        self._last = frozenset()
        self._id = ""
        self._lose_partitions()

    def _join(self) -> None:
        self._end_task()
        self.joins += 1
        self._gave_up = False
        number = self.joins
        operation = self._join_and_sync(self._engine.session)
        self._task = self._engine.spawn(operation, lambda outcome: self._joined(number, outcome))

    def _join_and_sync(self, session: Session) -> Steps[_Joined]:
        if self._failures:
            yield Pause(self._pause_s())
        if self._subscribed.pattern is not None:
            self._subscribed.match((yield from metadata(session)))
        settings = self._settings
        joining = JoiningMember(
            self._group,
            self._id,
            settings.group_instance_id,
            round(settings.session_timeout_ms),
            round(settings.max_poll_interval_ms),
            [(each.name, self._metadata(each)) for each in self._assignors],
            self._named,
        )
        answer = yield from join_group(session, joining)
        # Already now: what happens from here on concerns that member.
        self._id = answer.member_id
        self.member = GroupMetadata(
            self._group, answer.generation_id, answer.member_id, settings.group_instance_id
        )
        self._happen(_Event.JOINED)
        return (yield from self._sync(session, answer, self.member))

    def _sync(self, session: Session, answer: JoinGroupResponse, member: GroupMetadata) -> Steps[_Joined]:
        protocol = answer.protocol_name or ""
        is_leader = answer.leader == answer.member_id
        assignments: dict[str, bytes] = {}
        divided = _NO_PARTITIONS
        if is_leader:
            assignments, divided = yield from self._divide(session, answer, protocol)
        wait_ms = round(self._settings.max_poll_interval_ms)
        assignment = yield from sync_group(session, member, protocol, assignments, wait_ms)
        try:
            partitions = frozenset(ungrouped(read_assignment(assignment).assigned_partitions))
        except CodecError as error:
            raise ClientError(f"group {self._group!r}: its leader has sent no assignment: {error}") from error
        return _Joined(is_leader, partitions, divided)

    def _named(self, member_id: str) -> None:
        self._id = member_id

    def _metadata(self, assignor: Assignor) -> bytes:
        # The generation of a membership that was lost says nothing about the next one.
        generation = self.member.generation if self.member.member_id == self._id else NO_GENERATION
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self._subscribed.names),
            user_data=assignor.user_data(self._last, generation),
            owned_partitions=grouped(self.owned),
            generation_id=generation if self.owned else NO_GENERATION,
            rack_id=self._settings.client_rack or None,
        )
        return _METADATA_VERSION.to_bytes(2) + encode(subscription, _METADATA_VERSION)

    def _divide(
        self, session: Session, answer: JoinGroupResponse, protocol: str
    ) -> Steps[tuple[dict[str, bytes], _Partitions]]:
        """Return the assignment of each member, and the partitions that they are based on."""
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
        divided = _Partitions.of((yield from metadata(session, wanted)))
        assigned = assignor.assign(divided.counts, members, divided.racks)
        return {
            member_id: write_assignment(
                ConsumerProtocolAssignment(assigned_partitions=grouped(partitions)), versions[member_id]
            )
            for member_id, partitions in assigned.items()
        }, divided

    def _joined(self, number: int, outcome: _Joined | ClientError) -> None:
        self._task = None
        if number != self.joins or self._engine.is_closed:
            return
        if isinstance(outcome, ClientError):
            request = GroupRequest.JOIN if self.state is _State.JOINING else GroupRequest.SYNC
            if self._react(reaction_to(request, outcome), outcome):
                self._join_again()
            return
        self._failures = 0
        self._is_leader, self._divided, self._last = outcome.is_leader, outcome.divided, outcome.owned
        self._heard_at = self._engine.clock()
        self._happen(_Event.SYNCED)
        removed, added = self.owned - outcome.owned, outcome.owned - self.owned
        if removed:
            self.changes.append(AssignmentChange("revoked", frozenset(removed), number))
        self.changes.append(AssignmentChange("assigned", frozenset(added), number))
        self._changed()

    def _join_again(self) -> None:
        self.state = _State.JOINING
        self._join()

    def _beat_later(self) -> None:
        self._beat_in(self._settings.heartbeat_interval_ms / 1000, self._beat)

    def _beat(self) -> None:
        self._beat_timer = None
        if self.state not in BEATING or self._engine.is_closed or not self._id:
            return
        if self._is_idle():
            # Others continue with what this one does not poll; the next poll joins again.
            self._engine.spawn(self._leave(self._id), lambda _outcome: None)
            self._happen(_Event.LOST)
            return
        number = self.joins
        operation = heartbeat(self._engine.session, self.member)
        self._engine.spawn(operation, lambda outcome: self._beaten(number, outcome))

    def _beaten(self, number: int, outcome: ClientError | None) -> None:
        if number != self.joins or self._engine.is_closed or self.state not in BEATING:
            return
        now = self._engine.clock()
        if outcome is None:
            self._heard_at, self._failures = now, 0
        else:
            reaction = reaction_to(GroupRequest.HEARTBEAT, outcome)
            is_over = (now - self._heard_at) * 1000 > self._settings.session_timeout_ms
            if is_over and reaction is GroupReaction.RETRY:
                reaction = GroupReaction.REJOIN
            if self._react(reaction, outcome):
                self._beat_in(self._pause_s(), self._beat)
        if self.state in BEATING:
            self._beat_later()

    def _watch(self) -> None:
        """Look at the topics from time to time: new partitions and new topics need a rebalance."""
        when = self._engine.clock() + self._settings.metadata_max_age_ms / 1000
        self._watch_timer = self._engine.call_at(when, self._look_at_topics)

    def _look_at_topics(self) -> None:
        if self._engine.is_closed or self.state is _State.LEFT:
            self._watch_timer = None
            return
        has_pattern = self._subscribed.pattern is not None
        topics = None if has_pattern else sorted(self._subscribed.names | set(self._divided.counts))
        self._engine.spawn(metadata(self._engine.session, topics), self._looked_at_topics)
        self._watch()

    def _looked_at_topics(self, outcome: ClusterMetadata | ClientError) -> None:
        if isinstance(outcome, ClientError) or self.state is not _State.STABLE:
            return
        is_other = self._subscribed.match(outcome)
        if self._is_leader:
            is_other |= self._divided.have_changed(
                _Partitions.of(outcome),
                self._subscribed.names.union(self._divided.counts),
                # As in Kafka: a leader without a rack lets replicas move.
                are_racks_followed=bool(self._settings.client_rack),
            )
        if is_other:
            self._happen(_Event.REBALANCE)

    def _leave(self, member_id: str) -> Steps[None]:
        """Leave, unless the member is a static one, whose partitions wait for it."""
        if not member_id or self._settings.group_instance_id is not None:
            return
        # Without an answer the coordinator drops it when its session ends.
        with suppress(ClientError):
            yield from leave_group(
                self._engine.session, self._group, member_id, "the consumer is closed or does not poll"
            )
