"""Members of one consumer group, which revoke and take partitions as the coordinator assigns them."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from trio.testing import MockClock

from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import (
    ConsumerGroupHeartbeat,
    ConsumerGroupService,
    DescribedConsumerGroup,
    HeartbeatAnswer,
)
from tidelog.kernel.testing.coordination.harness import GROUP, PARTITIONS, TOPIC, CoordinatorHarness
from tidelog.kernel.testing.coordination.waiting import Time

JOIN, LEAVE, LEAVE_FOR_A_WHILE = 0, -1, -2
ROUNDS = 20
"""Heartbeats within which a group has to become stable."""


class ConsumerMember:
    """A member that revokes partitions at once, and reports that with its next heartbeat."""

    def __init__(self, member_id: str, instance_id: str | None = None) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = JOIN
        self.interval_ms = 0
        self.owned: PartitionsByTopic = {}

    @property
    def partitions(self) -> set[int]:
        """The partitions of `TOPIC` that it has."""
        return {partition for owned in self.owned.values() for partition in owned}

    def apply(self, answer: HeartbeatAnswer) -> None:
        """Take the epoch and the assignment of a response."""
        assert answer.member_id == self.member_id
        self.epoch, self.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            self.owned = answer.assignment


class ConsumerMembers:
    """The members of `GROUP`, all of which subscribe to `TOPIC`."""

    def __init__(self, harness: CoordinatorHarness, clock: MockClock) -> None:
        self.time = Time(harness, clock)
        self._harness = harness

    @property
    def groups(self) -> ConsumerGroupService:
        """The group service under test."""
        return self._harness.coordinator.consumer_groups

    def described(self) -> DescribedConsumerGroup:
        """Describe the group, with its members as they are now."""
        group = self.groups.describe(GROUP)
        return evolve(group, members=list(group.members))

    async def send(self, consumer: ConsumerMember, epoch: int, **rest: Any) -> HeartbeatAnswer:
        """Send a heartbeat without applying the response; `rest` are fields of the request."""
        request = ConsumerGroupHeartbeat(
            GROUP,
            consumer.member_id,
            epoch,
            consumer.instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            **rest,
        )
        answer = self.groups.heartbeat(request)
        return answer if isinstance(answer, HeartbeatAnswer) else await answer

    async def join(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Add a new member."""
        consumer = ConsumerMember(member_id, instance_id)
        await self.join_again(consumer)
        return consumer

    async def join_again(self, consumer: ConsumerMember) -> None:
        """Join again without partitions."""
        consumer.owned = {}
        answer = await self.send(
            consumer,
            JOIN,
            rebalance_timeout_ms=300_000,
            topic_names=frozenset([TOPIC]),
            owned={},
        )
        consumer.apply(answer)

    async def heartbeat(self, consumer: ConsumerMember) -> None:
        """Send a heartbeat with the partitions that the member owns."""
        consumer.apply(await self.send(consumer, consumer.epoch, owned=consumer.owned))

    async def come_to_rest(self, *consumers: ConsumerMember) -> None:
        """Send heartbeats until each partition has an owner, and check that it never has two.

        The newest member is the first: if it gets a partition too early, the others have not revoked it yet.
        """
        for _ in range(ROUNDS):
            for consumer in reversed(consumers):
                await self.heartbeat(consumer)
                had = [partition for each in consumers for partition in each.partitions]
                assert len(had) == len(set(had)), f"a partition has two owners: {had}"
            if self.at_rest(*consumers):
                return
            await self.time.passes(max(consumer.interval_ms for consumer in consumers))
        raise AssertionError(f"{ROUNDS} heartbeats did not make the group stable: {self.described()}")

    def at_rest(self, *consumers: ConsumerMember) -> bool:
        """Whether the group is stable, and these have all partitions in its epoch."""
        group = self.described()
        owned = {partition for consumer in consumers for partition in consumer.partitions}
        epochs = {consumer.epoch for consumer in consumers}
        return group.state == "Stable" and epochs == {group.epoch} and owned == set(range(PARTITIONS))
