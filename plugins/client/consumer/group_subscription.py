"""Subscription of a consumer: the topics that it shares with its group, and how changes are applied.

The membership finds out what changes about the assignment; the user's side applies each change by
`begin_change`, `call_listener` and `finish_change`, in this order.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidelog.plugins.client.consumer.classic_membership import ClassicGroupMembership
from tidelog.plugins.client.consumer.consumer_membership import ConsumerGroupMembership
from tidelog.plugins.client.consumer.membership import AssignmentChange, GroupMembership, no_steps
from tidelog.plugins.client.errors import ClientError, ErrorResponse, NotAssigned
from tidelog.plugins.client.operations.group_offsets import GroupMetadata
from tidelog.plugins.client.operations.sending import retrying
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from tidelog.plugins.client.consumer.assigned_partitions import AssignedPartitions
    from tidelog.plugins.client.consumer.rebalance_listener import RebalanceListener
    from tidelog.plugins.client.consumer.settings import ConsumerSettings
    from tidelog.plugins.client.engine import Engine
    from tidelog.plugins.client.steps import Steps

T = TypeVar("T")

_BETWEEN: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.REBALANCE_IN_PROGRESS)


class GroupSubscription:
    """The membership of a consumer in its group, and the partitions that come and go with it.

    Attributes:
        membership: None without a subscription
    """

    def __init__(
        self,
        engine: Engine,
        settings: ConsumerSettings,
        positions: AssignedPartitions,
        lock: AbstractContextManager[Any],
        changed: Callable[[], None],
    ) -> None:
        """Set `changed`, which is called when there is something to apply or was applied."""
        self.membership: GroupMembership | None = None
        self._engine = engine
        self._settings = settings
        self._positions = positions
        self._lock = lock
        self._changed = changed

    def subscribe(
        self, topics: Iterable[str], pattern: str | None, listener: RebalanceListener | None
    ) -> None:
        """Share the partitions of topics, and of those whose whole name matches a pattern, with the group.

        Raises:
            NotAssigned: the consumer has no group.
            ValueError: partitions are assigned by hand, or the pattern is no regular expression.
        """
        try:
            compiled = None if pattern is None else re.compile(pattern)
        except re.error as error:
            raise ValueError(f"the pattern {pattern!r} is no regular expression: {error}") from error
        group = self._settings.group_id
        if group is None:
            raise NotAssigned("a consumer without group_id shares no partitions: assign them")
        with self._lock:
            self._positions.check_open()
            if self.membership is None:
                if self._positions:
                    raise ValueError("this consumer has partitions that were assigned by hand")
                self.membership = self._new_membership(group)
            self.membership.subscribe(topics, compiled, listener)

    def _new_membership(self, group: str) -> GroupMembership:
        is_classic = self._settings.group_protocol == "classic"
        protocol = ClassicGroupMembership if is_classic else ConsumerGroupMembership
        return protocol(self._engine, self._settings, group, self._changed)

    def topics(self) -> frozenset[str]:
        """Return the topics that the consumer shares with its group."""
        with self._lock:
            return frozenset() if self.membership is None else self.membership.topics

    def leaving(self) -> Steps[None]:
        """End the subscription, and return the operation that leaves the group; called with the lock."""
        membership, self.membership = self.membership, None
        return no_steps() if membership is None else membership.leaving()

    def metadata(self) -> GroupMetadata:
        """Return the group, and with a subscription the member; raises `NotAssigned` without a group."""
        membership = self.membership
        if membership is not None:
            return membership.member
        if self._settings.group_id is None:
            raise NotAssigned("a consumer without group_id commits no offsets")
        return GroupMetadata(self._settings.group_id)

    def as_member(self, request: Callable[[GroupMetadata], Steps[T]]) -> Steps[T]:
        """Return the operation that makes a request as the member, for a caller who waits for it.

        It is made again while the member is between two epochs or generations: the coordinator raises the
        epoch of a member while the answer that brings it is on its way (STALE_MEMBER_EPOCH), and accepts no
        commit until the assignment is there (REBALANCE_IN_PROGRESS). But not once the membership was lost.
        """
        membership = self.membership
        losses = 0 if membership is None else membership.losses

        def is_between(error: ClientError) -> bool:
            if membership is None or self.membership is not membership or membership.losses != losses:
                return False
            return isinstance(error, ErrorResponse) and error.code in _BETWEEN

        return retrying(self._engine.session, lambda: request(self.metadata()), may_retry=is_between)

    @property
    def needs_poll(self) -> bool:
        """Return whether `poll` has something to apply or to raise; called with the lock."""
        return self.membership is not None and self.membership.needs_poll

    def polled(self) -> None:
        """Note that the user is alive, and raise what the membership has failed with; called with the lock.

        Raises:
            ClientError: what has failed meanwhile.
        """
        membership = self.membership
        if membership is None:
            return
        membership.polled()
        if membership.failure is not None:
            failure, membership.failure = membership.failure, None
            raise failure

    def next_change(self) -> AssignmentChange | None:
        """Return what has to change about the assignment; each is applied by the next three methods."""
        with self._lock:
            return None if self.membership is None else self.membership.next_change()

    def last_change(self) -> AssignmentChange | None:
        """Return the change that ends a subscription."""
        with self._lock:
            membership = self.membership
            if membership is None or not membership.owned:
                return None
            return AssignmentChange("revoked", frozenset(membership.owned), -1)

    def begin_change(self, change: AssignmentChange) -> None:
        """Add partitions, whose positions a listener may set."""
        if change.kind == "assigned":
            with self._lock:
                for partition in sorted(change.partitions):
                    self._positions.add(partition)

    def call_listener(self, change: AssignmentChange) -> object:
        """Call the listener; return what it returns."""
        membership = self.membership
        listener = None if membership is None else membership.listener
        if listener is None or change.kind == "prepare":
            return None
        if change.kind == "assigned":
            return listener.on_assigned(change.partitions)
        if not change.partitions:
            return None
        return (listener.on_revoked if change.kind == "revoked" else listener.on_lost)(change.partitions)

    def finish_change(self, change: AssignmentChange) -> None:
        """Drop partitions, and let the membership continue."""
        with self._lock:
            if change.kind != "assigned":
                for partition in change.partitions:
                    self._positions.pop(partition, None)
            if self.membership is not None:
                self.membership.finished(change)
            self._changed()
