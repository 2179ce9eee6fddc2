"""Membership of a consumer in its group: what both protocols share.

The engine's side finds out what has to change about the assignment, and queues it in `changes`; the user's
side applies each change, at the next `poll`, and reports it with `finished`. So partitions come and go only
while no record of them is in the user's hands.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal

import attrs

from tidelog.plugins.client.consumer.group_errors import GroupReaction, GroupRequest, reaction_to
from tidelog.plugins.client.consumer.subscribed_topics import SubscribedTopics
from tidelog.plugins.client.operations.group_offsets import GroupMetadata

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable

    from tidelog.kernel.topic_partition import TopicPartition
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine, EngineTimer, Task
    from tidelog.plugins.client.errors import ClientError
    from tidelog.plugins.client.steps import Steps


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


class GroupMembership:
    """Membership of one consumer; its subclasses are the protocols.

    Attributes:
        failure: what the user's side has to raise, None for nothing
        member: identity for commits: of a membership that is lost still the old one, which is refused
        owned: the partitions that the user's side has
        changes: what it has to apply, in order
        listener: what it calls then
        joins: number of the present join, or of the present membership in the consumer protocol
        losses: how often the membership was lost: then the partitions were, too
    """

    def __init__(
        self, engine: Engine, settings: ConsumerSettings, group: str, changed: Callable[[], None]
    ) -> None:
        """Set `changed`, which is called when the user's side has something to do."""
        self.member = GroupMetadata(group, group_instance_id=settings.group_instance_id)
        self.owned: set[TopicPartition] = set()
        self.changes: deque[AssignmentChange] = deque()
        self.listener: RebalanceListener | None = None
        self.failure: ClientError | None = None
        self.joins: int = 0
        self.losses: int = 0
        self._engine = engine
        self._settings = settings
        self._group = group
        self._changed = changed
        self._subscribed = SubscribedTopics()
        self._task: Task[Any] | None = None
        self._beat_timer: EngineTimer | None = None
        self._failures = 0
        self._polled_at = engine.clock()
        self._retry = settings.client().retry

    # What the user's side calls.

    def subscribe(
        self, topics: Iterable[str], pattern: re.Pattern[str] | None, listener: RebalanceListener | None
    ) -> None:
        """Join with these topics and those that match the pattern, or change the subscription."""
        self._subscribed.replace(topics, pattern)
        self.listener = listener
        self._polled_at = self._engine.clock()
        self._resubscribed()

    @property
    def topics(self) -> frozenset[str]:
        """Return the topics of the subscription, those that match a pattern included."""
        return self._subscribed.names

    def polled(self) -> None:
        """Note that the user is alive, and join again if the membership was lost."""
        self._polled_at = self._engine.clock()
        if self._is_out and not self.changes and self.failure is None and self._task is None:
            self._start()

    @property
    def needs_poll(self) -> bool:
        """Return whether the user's side has something to do."""
        return bool(self.changes) or self.failure is not None or self._is_out

    def next_change(self) -> AssignmentChange | None:
        """Return the next change to apply, None for none."""
        if not self.changes:
            return None
        change = self.changes.popleft()
        if change.kind == "assigned":
            # Already now: what is lost while a listener is called includes them.
            self.owned |= change.partitions
            return change
        # What was given up while the membership was still there is not lost with it.
        return attrs.evolve(change, partitions=change.partitions & self.owned)

    def finished(self, change: AssignmentChange) -> None:
        """Continue after a change was applied."""
        if change.kind != "assigned":
            self.owned -= change.partitions
        if change.kind == "lost":
            self.polled()
        elif change.generation == self.joins:
            self._applied(change)

    def commit_failed(self, member: GroupMetadata, error: ClientError) -> None:
        """Note the error of a commit that was made as this member; it may be another one by now."""
        reaction = reaction_to(GroupRequest.COMMIT, error)
        if member == self.member and not self._is_out and reaction is not GroupReaction.NONE:
            self._react(reaction, error)

    def leaving(self) -> Steps[None]:
        """Return the operation that leaves the group; no other method is called after this."""
        raise NotImplementedError

    # What the protocols do.

    @property
    def _is_out(self) -> bool:
        """Return whether the consumer has a subscription, but is no member and does not join."""
        raise NotImplementedError

    def _start(self) -> None:
        """Join, as a new member."""
        raise NotImplementedError

    def _resubscribed(self) -> None:
        """Join, or make another subscription known."""
        raise NotImplementedError

    def _applied(self, change: AssignmentChange) -> None:
        """Continue after a change of the present join was applied."""
        raise NotImplementedError

    def _lost(self) -> None:
        """Drop what belongs to the membership, which the coordinator does not know any more."""
        raise NotImplementedError

    def _rebalance(self) -> None:
        """Join the next generation."""
        raise NotImplementedError

    # What they share.

    def _react(self, reaction: GroupReaction, error: ClientError) -> bool:
        """Continue after an error of a request of the member; return whether to send it again later."""
        if reaction is GroupReaction.REBALANCE:
            self._rebalance()
            return False
        self._failures += 1
        if reaction is GroupReaction.RETRY:
            return True
        if reaction is GroupReaction.RAISE:
            self.failure = error
        self._lost()
        return False

    def _pause_s(self) -> float:
        """Return how long to wait after the failures in a row."""
        return self._retry.pause_s(self._failures - 1) if self._failures else 0.0

    def _lose_partitions(self) -> None:
        """Have the user give up what may belong to others by now; the membership ends with that."""
        self._end_task()
        self.changes.clear()
        self.joins += 1
        self.losses += 1
        if self.owned:
            self.changes.append(AssignmentChange("lost", frozenset(self.owned), self.joins))
        self._changed()

    def _is_idle(self) -> bool:
        """Return whether the user has not polled for `max_poll_interval_ms`."""
        return (self._engine.clock() - self._polled_at) * 1000 > self._settings.max_poll_interval_ms

    def _beat_in(self, seconds: float, beat: Callable[[], None]) -> None:
        """Send the next heartbeat after so many seconds, unless another time is set already."""
        if self._beat_timer is None:
            self._beat_timer = self._engine.call_at(self._engine.clock() + seconds, beat)

    def _stop_beating(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None

    def _end_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None


def no_steps() -> Steps[None]:
    """Return an operation that does nothing."""
    yield from ()
