"""Consumer instances: members of groups on behalf of clients that only send requests now and then.

An instance is a member by the consumer protocol (KIP-848). The broker sends its heartbeats for as long as the
client sends any request within `http.consumer.instance.timeout.ms`. It has a subscription, or partitions that
the client has assigned to it; then it is no member.

Source: version 2 of the consumers of Kafka's REST proxies.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

import trio

from tidelog.kernel.errors import BrokerError, FencedMemberEpoch, UnknownMemberId
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.kernel.seams.coordination.offsets import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetToCommit,
)
from tidelog.plugins.protocol_http.messages import HttpProblem
from tidelog.plugins.protocol_http.problems import UNKNOWN_INSTANCE
from tidelog.plugins.protocol_http.reading import Partition, Positions

if TYPE_CHECKING:
    from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
    from tidelog.kernel.seams.requests import Principal
    from tidelog.kernel.seams.wire import WireContext
    from tidelog.plugins.protocol_http.formats import Embedded
    from tidelog.plugins.protocol_http.interception import RequestingClient

_log = logging.getLogger(__name__)

Reset = Literal["earliest", "latest"]

LOOK_SECONDS: Final = 1.0
"""How often the task looks for heartbeats that are due, and for instances that idle."""
REBALANCE_TIMEOUT_MS: Final = 300_000
JOINING, LEAVING, NO_MEMBER = 0, -1, -1
CLIENT_ID: Final = "http"
INSTANCE_EXISTS, EXCLUSIVE, NO_SUBSCRIPTION, TOO_MANY = 40902, 40903, 40904, 50392


class ConsumerInstance:
    """One instance; `lock` is held by the request that it serves."""

    def __init__(
        self,
        broker: WireContext,
        group_id: str,
        name: str,
        client: RequestingClient,
        *,
        embedded: Embedded,
        reset: Reset,
        auto_commit: bool,
        wait_seconds: float,
    ) -> None:
        self.group_id = group_id
        self.name = name
        self.client = client
        self.embedded: Embedded = embedded
        self.auto_commit = auto_commit
        self.wait_seconds = wait_seconds
        self.lock = trio.Lock()
        self.used_at = trio.current_time()
        self.topics: frozenset[str] = frozenset()
        self.pattern: str | None = None
        self.positions = Positions(broker, client, {})
        self._broker = broker
        self._reset: Reset = reset
        self._member_id = str(uuid.uuid4())
        self._epoch = NO_MEMBER
        self._assigned = False
        self._heartbeat_at = 0.0
        self._uncommitted: set[Partition] = set()

    @property
    def is_subscribed(self) -> bool:
        """Whether it is, or is about to become, a member of its group."""
        return bool(self.topics) or self.pattern is not None

    async def subscribe(self, topics: Iterable[str], pattern: str | None) -> None:
        """Subscribe to topics, or to those whose names match; nothing of either ends the subscription.

        Raises:
            HttpProblem: partitions were assigned by the client.
            BrokerError: the group refuses.
        """
        if self._assigned:
            raise HttpProblem(409, "the instance has partitions that were assigned to it", EXCLUSIVE)
        await self.leave()
        self.topics, self.pattern = frozenset(topics), pattern
        if self.is_subscribed:
            await self._broker.coordinator.prepare_groups()
            await self._join()

    async def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions, from where the group has committed, without becoming a member.

        Raises:
            HttpProblem: the instance is subscribed.
        """
        if self.is_subscribed:
            raise HttpProblem(409, "the instance is subscribed to topics", EXCLUSIVE)
        wanted = list(partitions)
        await self._broker.coordinator.prepare_groups()
        self._assigned = bool(wanted)
        self._own(wanted)

    async def heartbeat_if_due(self, now: float) -> None:
        """Send a heartbeat if it is time; join again if the group no longer knows the member."""
        if self._epoch == NO_MEMBER or now < self._heartbeat_at:
            return
        try:
            await self._heartbeat(self._request(self._epoch))
        except (UnknownMemberId, FencedMemberEpoch):
            self._own(())
            await self._join()

    async def leave(self) -> None:
        """Commit what `auto.commit.enable` commits, and leave the group; partitions are given back."""
        await self.commit_automatically()
        epoch, self._epoch = self._epoch, NO_MEMBER
        self.topics, self.pattern = frozenset(), None
        self._own(())
        self._assigned = False
        if epoch != NO_MEMBER:
            answer = self._broker.coordinator.consumer_groups.heartbeat(
                ConsumerGroupHeartbeat(self.group_id, self._member_id, LEAVING)
            )
            if isinstance(answer, Awaitable):
                await answer
        self._member_id = str(uuid.uuid4())

    async def _join(self) -> None:
        self._epoch = NO_MEMBER
        request = self._request(JOINING)._replace(
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            topic_names=self.topics if self.pattern is None else frozenset(),
            topic_regex=self.pattern,
            owned={},
        )
        await self._heartbeat(request)

    def _request(self, epoch: int) -> ConsumerGroupHeartbeat:
        return ConsumerGroupHeartbeat(
            self.group_id, self._member_id, epoch, client_id=CLIENT_ID, client_host=f"/{self.client.host}"
        )

    async def _heartbeat(self, request: ConsumerGroupHeartbeat) -> None:
        """Send a heartbeat; with another assignment, take it over and report that at once."""
        groups = self._broker.coordinator.consumer_groups
        while True:
            answer = groups.heartbeat(request)
            if not isinstance(answer, HeartbeatAnswer):
                answer = await answer
            self._epoch = answer.member_epoch
            self._heartbeat_at = trio.current_time() + answer.heartbeat_interval_ms / 1000
            if answer.assignment is None:
                return
            await self._take_over(answer.assignment)
            request = self._request(self._epoch)._replace(owned=answer.assignment)

    async def _take_over(self, assignment: PartitionsByTopic) -> None:
        names = {
            topic_id: topic.name
            for topic_id in assignment
            if (topic := self._broker.topics.find_by_id(topic_id)) is not None
        }
        wanted = [
            (names[topic_id], partition)
            for topic_id, partitions in assignment.items()
            if topic_id in names
            for partition in sorted(partitions)
        ]
        # Before another member begins where this one has committed.
        if not set(self.positions.next) <= set(wanted):
            await self.commit_automatically()
        self._own(wanted)

    def _own(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions from now on: new ones from where the group has committed."""
        wanted = list(partitions)
        known = self.positions.next
        added = [each for each in wanted if each not in known]
        starts: Mapping[Partition, int] = self._starts(added) if added else {}
        self.positions.replace({each: known[each] if each in known else starts[each] for each in wanted})
        self._uncommitted &= set(wanted)

    def _starts(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        committed = self.committed(partitions)
        starts: dict[Partition, int] = {}
        for each in partitions:
            found = committed.get(each)
            log = self._broker.replicas.log_of(*each)
            by_policy = log.log_start_offset if self._reset == "earliest" else log.high_watermark
            starts[each] = by_policy if found is None else found
        return starts

    def committed(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """Return what the group has committed of these partitions."""
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        fetched = self._broker.coordinator.offsets.fetch(OffsetFetch(self.group_id, topics))
        return {
            (topic, partition): committed.offset
            for topic, offsets in fetched.items()
            for partition, committed in offsets.items()
            if isinstance(committed, CommittedOffset)
        }

    def delivered(self, partitions: Iterable[Partition]) -> None:
        """Note that records of these were handed out."""
        self._uncommitted.update(partitions)

    async def commit_automatically(self) -> None:
        """Commit what was handed out, if the instance does so by itself."""
        if self.auto_commit and self._uncommitted:
            await self.commit(self.handed_out())

    def handed_out(self) -> Mapping[Partition, int]:
        """Return the offsets behind what was handed out and is not committed yet."""
        return {each: self.positions.next[each] for each in self._uncommitted if each in self.positions.next}

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets as the member that the instance is.

        Raises:
            BrokerError: one of them is refused.
        """
        member_id = "" if self._epoch == NO_MEMBER else self._member_id
        wanted = [OffsetToCommit(*each, offset) for each, offset in offsets.items()]
        outcome = self._broker.coordinator.offsets.commit(
            OffsetCommit(self.group_id, wanted, self._epoch, member_id)
        )
        for error in outcome.errors:
            if error is not None:
                raise error
        self._uncommitted -= set(offsets)
        if outcome.wait is not None:
            await outcome.wait()


class ConsumerInstances:
    """All instances of a broker; a task sends their heartbeats, and ends those that idle."""

    def __init__(self, broker: WireContext, idle_seconds: float, most: int) -> None:
        self._broker = broker
        self._idle_seconds = idle_seconds
        self._most = most
        self._instances: dict[tuple[str, str], ConsumerInstance] = {}
        self._is_running = False

    def __len__(self) -> int:
        return len(self._instances)

    def add(self, make: Callable[[], ConsumerInstance]) -> ConsumerInstance:
        """Add an instance.

        Raises:
            HttpProblem: there is one of this name, or there are too many.
        """
        if len(self._instances) >= self._most:
            raise HttpProblem(
                503, f"there are {self._most} consumer instances, the most there may be", TOO_MANY
            )
        instance = make()
        known = instance.group_id, instance.name
        if known in self._instances:
            raise HttpProblem(409, f"a consumer instance {instance.name!r} exists", INSTANCE_EXISTS)
        self._instances[known] = instance
        if not self._is_running:
            self._is_running = True
            self._broker.tasks.once("consumer instances", self._run)
        return instance

    def get(self, group_id: str, name: str, principal: Principal) -> ConsumerInstance:
        """Return an instance of the principal that has created it, and note that it is used.

        Raises:
            HttpProblem: there is none.
        """
        instance = self._instances.get((group_id, name))
        if instance is None or instance.client.principal != principal:
            raise HttpProblem(404, f"there is no consumer instance {name[:100]!r}", UNKNOWN_INSTANCE)
        instance.used_at = trio.current_time()
        return instance

    async def remove(self, instance: ConsumerInstance) -> None:
        """Delete an instance; it leaves its group."""
        self._instances.pop((instance.group_id, instance.name), None)
        instance.positions.stop()
        await instance.leave()

    async def _run(self) -> None:
        try:
            while self._instances:
                for instance in tuple(self._instances.values()):
                    await self._look_after(instance)
                await trio.sleep(LOOK_SECONDS)
        finally:
            self._is_running = False

    async def _look_after(self, instance: ConsumerInstance) -> None:
        now = trio.current_time()
        try:
            if now - instance.used_at >= self._idle_seconds and not instance.lock.locked():
                _log.info("deleting the idle consumer instance %r of %s", instance.name, instance.group_id)
                await self.remove(instance)
            else:
                await instance.heartbeat_if_due(now)
        # Its client finds out with its next request; those of others are looked after all the same.
        except (BrokerError, HttpProblem) as error:
            _log.warning("consumer instance %r of %s: %s", instance.name, instance.group_id, error)
