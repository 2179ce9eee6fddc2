"""Membership in a group of the consumer protocol (KIP-848): heartbeats, and the assignment that follows.

The coordinator divides the partitions. A heartbeat reports what has changed about the subscription and what
the member owns, and its answer brings the member's epoch and, when it has changed, the assignment. The
member gives up what is not in it, reports that, and takes what is new: the coordinator assigns a partition
only after the member that had it has reported it as given up.

Source: Apache Kafka 4.4, `AbstractMembershipManager`, `ConsumerHeartbeatRequestManager`.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.consumer.assignors import grouped
from tidelog.plugins.client.consumer.consumer_member_states import (
    CONSUMER_TRANSITIONS,
    IN_GROUP,
    ConsumerMemberEvent,
    ConsumerMemberState,
)
from tidelog.plugins.client.consumer.group_errors import GroupRequest, reaction_to
from tidelog.plugins.client.consumer.membership import AssignmentChange, GroupMembership, no_steps
from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsendableRequest
from tidelog.plugins.client.operations.consumer_membership import (
    EPOCH_TO_JOIN,
    EPOCH_TO_LEAVE,
    EPOCH_TO_LEAVE_FOR_A_WHILE,
    consumer_heartbeat,
)
from tidelog.plugins.client.operations.metadata import metadata, topic_names
from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatTopicPartitions,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tidelog.plugins.client.cluster import ClusterMetadata
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer
    from tidelog.plugins.client.steps import Steps
    from tidelog.plugins.protocol_kafka.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatResponse,
    )

_State = ConsumerMemberState
_Event = ConsumerMemberEvent


class TargetAssignment:
    """What the coordinator has assigned, by the ids of topics, whose names are looked up.

    Attributes:
        unnamed: ids of assigned topics whose names are unknown
    """

    def __init__(self) -> None:
        self._partitions: dict[UUID, list[int]] = {}
        self._names: dict[UUID, str] = {}
        self._owned_ids: dict[str, UUID] = {}
        self.unnamed: frozenset[UUID] = frozenset()

    def replace(self, topics: Iterable[ConsumerGroupHeartbeatTopicPartitions]) -> None:
        """Set the assignment."""
        self._partitions = {UUID(bytes=bytes(each.topic_id)): list(each.partitions) for each in topics}
        self._find_unnamed()

    def name(self, names: dict[UUID, str]) -> None:
        """Add names of topics."""
        self._names |= names
        self._find_unnamed()

    def partitions(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions of topics whose names are known."""
        return frozenset(
            TopicPartition(self._names[topic_id], index)
            for topic_id, indexes in self._partitions.items()
            if topic_id in self._names
            for index in indexes
        )

    def removed(self, owned: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Return which of these are not assigned; nor are those of a topic that was created again."""
        assigned = self.partitions()
        ids = {name: topic_id for topic_id, name in self._names.items() if topic_id in self._partitions}
        return frozenset(
            each
            for each in owned
            if each not in assigned or ids[each.topic] != self._owned_ids.get(each.topic)
        )

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the member owns partitions, of the topics that have these names now."""
        topics = {each.topic for each in partitions}
        self._owned_ids |= {
            self._names[topic_id]: topic_id
            for topic_id in self._partitions
            if self._names.get(topic_id) in topics
        }

    def as_owned(self, owned: Iterable[TopicPartition]) -> list[ConsumerGroupHeartbeatTopicPartitions]:
        """Return partitions that the member owns as heartbeats have them."""
        return [
            ConsumerGroupHeartbeatTopicPartitions(
                topic_id=self._owned_ids[each.topic].bytes, partitions=each.partitions
            )
            for each in grouped(owned)
            if each.topic in self._owned_ids
        ]

    def _find_unnamed(self) -> None:
        self.unnamed = frozenset(self._partitions.keys() - self._names.keys())


@attrs.frozen
class _MemberFields:
    """What heartbeats report when it has changed."""

    rebalance_timeout_ms: int
    rack_id: str | None
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    server_assignor: str | None


class ConsumerGroupMembership(GroupMembership):
    """Membership of one consumer in a group of the consumer protocol.

    Attributes:
        state: where the member is
    """

    def __init__(
        self, engine: Engine, settings: ConsumerSettings, group: str, changed: Callable[[], None]
    ) -> None:
        super().__init__(engine, settings, group, changed)
        self.state = ConsumerMemberState.UNJOINED
        # Of the form that Kafka's clients give it (KIP-1082).
        self._id = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        self._target = TargetAssignment()
        self._interval_s = 0.0
        self._reported: _MemberFields | None = None
        self._owned_changes = 0
        self._owned_reported = 0
        self._is_beat_due = False
        self._is_changing = False
        self._is_naming = False
        self._is_matched_here = False
        self._has_sent_pattern = False
        self._match_timer: EngineTimer | None = None

    def leaving(self) -> Steps[None]:
        """Return the operation that leaves the group; a static member's partitions wait for it."""
        was_in = self.state in IN_GROUP
        self._happen(_Event.LEAVE)
        return self._leave() if was_in else no_steps()

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics of the subscription, and those that the coordinator has assigned by a pattern."""
        return self._subscribed.names | {each.topic for each in self._target.partitions()}

    # What the protocols do.

    @property
    def _is_out(self) -> bool:
        return self.state is _State.UNJOINED

    def _start(self) -> None:
        self._happen(_Event.START)

    def _resubscribed(self) -> None:
        if self._is_out:
            self.polled()
        elif self._matches_here:
            self._match()
        else:
            self._beat()

    def _applied(self, change: AssignmentChange) -> None:
        self._is_changing = False
        self._owned_changes += 1
        # Already now: others wait for what was given up.
        self._beat()
        self._reconcile()

    def _lost(self) -> None:
        self._happen(_Event.LOST)

    def _rebalance(self) -> None:
        """Do nothing: members of this protocol learn of a rebalance by their assignment."""

    # What follows from it.

    def _happen(self, event: ConsumerMemberEvent) -> None:
        """Move to the next state, and do what is done there."""
        state = CONSUMER_TRANSITIONS.get((self.state, event))
        if state is None:
            return
        self.state = state
        if state is _State.JOINING:
            self._join()
        elif state is _State.RECONCILING:
            self._reconcile()
        elif state is _State.LEFT:
            self._stop_beating()
            self._end_task()
        elif state is _State.UNJOINED:
            self._stop_beating()
            self._is_changing = False
            self._lose_partitions()

    def _join(self) -> None:
        self.joins += 1
        self._target = TargetAssignment()
        self._reported = None
        self._owned_changes = self._owned_reported = 0
        self._beat_in(self._pause_s(), self._match if self._matches_here else self._beat)

    def _beat(self) -> None:
        """Send a heartbeat now, or as soon as the one before is answered."""
        if self._task is not None:
            self._is_beat_due = True
            return
        self._stop_beating()
        self._is_beat_due = False
        if self.state not in IN_GROUP or self._engine.is_closed:
            return
        if self._is_idle():
            # Others continue with what this one does not poll; the next poll joins again.
            self._engine.spawn(self._leave(), lambda _outcome: None)
            self._happen(_Event.LOST)
            return
        number, fields, owned = self.joins, self._fields(), self._owned_changes
        request = self._request(fields)
        operation = consumer_heartbeat(self._engine.session, request)
        self._task = self._engine.spawn(
            operation, lambda outcome: self._beaten(number, fields, owned, outcome)
        )

    @property
    def _matches_here(self) -> bool:
        return self._is_matched_here and self._subscribed.pattern is not None

    def _fields(self) -> _MemberFields:
        settings, subscribed = self._settings, self._subscribed
        pattern: str | None = None
        if subscribed.pattern is not None and not self._is_matched_here:
            pattern = subscribed.pattern.pattern
            self._has_sent_pattern = True
        elif self._has_sent_pattern:
            # Null would leave it as it was.
            pattern = ""
        return _MemberFields(
            round(settings.max_poll_interval_ms),
            settings.client_rack or None,
            sorted(subscribed.names),
            pattern,
            settings.group_remote_assignor,
        )

    def _request(self, fields: _MemberFields) -> ConsumerGroupHeartbeatRequest:
        is_joining = self.state is _State.JOINING
        content: dict[str, Any] = {}
        if is_joining or fields != self._reported:
            content = attrs.asdict(fields)
        if is_joining:
            content["topic_partitions"] = []
        elif self._owned_changes != self._owned_reported:
            content["topic_partitions"] = self._target.as_owned(self.owned)
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=EPOCH_TO_JOIN if is_joining else self.member.generation,
            instance_id=self._settings.group_instance_id,
            **content,
        )

    def _beaten(
        self,
        number: int,
        fields: _MemberFields,
        owned: int,
        outcome: ConsumerGroupHeartbeatResponse | ClientError,
    ) -> None:
        self._task = None
        if number != self.joins or self.state not in IN_GROUP or self._engine.is_closed:
            return
        if isinstance(outcome, ClientError):
            self._refused(outcome)
            return
        self._failures = 0
        self._reported, self._owned_reported = fields, owned
        self._interval_s = outcome.heartbeat_interval_ms / 1000
        self.member = attrs.evolve(self.member, generation=outcome.member_epoch, member_id=self._id)
        self._answered(outcome)
        if self._is_beat_due:
            self._beat()
        elif self.state in IN_GROUP:
            self._beat_in(self._interval_s, self._beat)

    def _answered(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if self._owned_reported == self._owned_changes:
            self._happen(_Event.ACKNOWLEDGED)
        if answer.assignment is not None:
            self._target.replace(answer.assignment.topic_partitions)
            self._happen(_Event.ASSIGNED)
        self._happen(_Event.JOINED)

    def _refused(self, error: ClientError) -> None:
        # The coordinator may or may not have got it: then all is reported again.
        self._reported = None
        self._owned_reported = -1
        if self._match_here_after(error):
            return
        if self._react(reaction_to(GroupRequest.CONSUMER_HEARTBEAT, error), error):
            self._beat_in(self._pause_s(), self._beat)

    def _reconcile(self) -> None:
        """Have the user's side do the next step towards the assignment, unless it is at one."""
        if self.state is not _State.RECONCILING or self._is_changing:
            return
        if self._target.unnamed:
            self._look_up_names()
        removed = self._target.removed(self.owned)
        added = self._target.partitions() - self.owned
        if removed:
            self._change(AssignmentChange("revoked", removed, self.joins))
        elif added:
            self._target.taken(added)
            self._change(AssignmentChange("assigned", added, self.joins))
        elif not self._target.unnamed:
            # Without an answer to what was reported last the next one acknowledges it.
            self._happen(_Event.RECONCILED)
            if self._owned_reported == self._owned_changes:
                self._happen(_Event.ACKNOWLEDGED)

    def _change(self, change: AssignmentChange) -> None:
        self._is_changing = True
        self.changes.append(change)
        self._changed()

    def _look_up_names(self) -> None:
        if not self._is_naming:
            self._is_naming = True
            operation = topic_names(self._engine.session, self._target.unnamed)
            self._engine.spawn(operation, self._named)

    def _named(self, outcome: dict[UUID, str] | ClientError) -> None:
        if not isinstance(outcome, ClientError):
            self._target.name(outcome)
        if self._target.unnamed:
            # A topic may be there for the coordinator before it is for this broker.
            self._engine.call_at(self._engine.clock() + self._retry.pause_s(0), self._name_again)
        else:
            self._is_naming = False
        if not self._engine.is_closed:
            self._reconcile()

    def _name_again(self) -> None:
        self._is_naming = False
        if not self._engine.is_closed:
            self._reconcile()

    def _match_here_after(self, error: ClientError) -> bool:
        """Match the pattern here if the coordinator cannot; return whether that is so.

        ConsumerGroupHeartbeat 0 has no field for it, and RE2, in which brokers match, lacks some of what
        Python's expressions have.
        """
        if self._is_matched_here or self._subscribed.pattern is None:
            return False
        is_refused = isinstance(error, ErrorResponse) and error.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        is_unknown = isinstance(error, UnsendableRequest)
        self._is_matched_here = is_refused or is_unknown
        if is_unknown:
            self._has_sent_pattern = False
        if self._is_matched_here:
            self._match()
        return self._is_matched_here

    def _match(self) -> None:
        """Look for topics that match, now and from time to time, and report them."""
        if self._match_timer is not None:
            self._match_timer.cancel()
            self._match_timer = None
        if self.state not in IN_GROUP or self._engine.is_closed:
            return
        when = self._engine.clock() + self._settings.metadata_max_age_ms / 1000
        self._match_timer = self._engine.call_at(when, self._match)
        number = self.joins
        self._engine.spawn(metadata(self._engine.session), lambda found: self._matched(number, found))

    def _matched(self, number: int, outcome: ClusterMetadata | ClientError) -> None:
        if number != self.joins or self._engine.is_closed:
            return
        if isinstance(outcome, ClientError):
            if self._react(reaction_to(GroupRequest.CONSUMER_HEARTBEAT, outcome), outcome):
                self._beat_in(self._pause_s(), self._match)
        elif self._subscribed.match(outcome) or self._reported is None:
            self._beat()

    def _leave(self) -> Steps[None]:
        is_static = self._settings.group_instance_id is not None
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._id,
            member_epoch=EPOCH_TO_LEAVE_FOR_A_WHILE if is_static else EPOCH_TO_LEAVE,
            instance_id=self._settings.group_instance_id,
        )
        # Without an answer the coordinator drops it when its session ends.
        with suppress(ClientError):
            yield from consumer_heartbeat(self._engine.session, request)
