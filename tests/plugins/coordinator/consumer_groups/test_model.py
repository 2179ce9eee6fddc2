"""Whatever members do: no partition has two owners, epochs never go back, and heartbeats settle the group."""

from __future__ import annotations

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.plugins.coordinator.consumer_groups.driver import SETTINGS, ConsumerGroupDriver, FakeTopics
from tidelog.kernel.errors import (
    BrokerError,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import HeartbeatAnswer
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroupState
from tidelog.plugins.coordinator.consumer_groups.machine.departures import depart

TOPICS = ["a", "b", "c"]
HEARTBEATS_TO_SETTLE = 8
MAX_SIZE = 4
MEMBERS = st.integers(0, 4)


@attrs.define
class Consumer:
    """A client that does as it is told: it gives up at once or later, and only then says so."""

    member_id: str
    epoch: int = 0
    instance_id: str | None = None
    owned: dict[bytes, frozenset[int]] = attrs.Factory(dict)
    told: PartitionsByTopic = attrs.Factory(dict)
    topics: frozenset[str] = frozenset()
    regex: str | None = None

    def hear(self, answer: HeartbeatAnswer) -> None:
        """Take an answer in; partitions that are new are taken at once."""
        assert answer.member_epoch >= self.epoch
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.told = answer.assignment
            for topic_id, partitions in answer.assignment.items():
                self.owned[topic_id] = self.owned.get(topic_id, frozenset()) | partitions

    def give_up(self) -> None:
        """Let go of what it was not told to have."""
        self.owned = {
            topic_id: kept
            for topic_id, partitions in self.owned.items()
            if (kept := partitions & self.told.get(topic_id, frozenset()))
        }


class GroupMachine(RuleBasedStateMachine):
    """Consumers that come, work, forget, change their minds, and go, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.consumers: dict[int, Consumer] = {}
        self.joined = 0
        self.epoch = 0

    @initialize(
        interval=st.sampled_from([0, 1_000]), counts=st.lists(st.integers(1, 5), min_size=2, max_size=2)
    )
    def begin(self, interval: int, counts: list[int]) -> None:
        self.driver = ConsumerGroupDriver(
            FakeTopics(**dict(zip(TOPICS, counts, strict=False))),
            attrs.evolve(SETTINGS, assignment_interval_ms=interval, max_size=MAX_SIZE),
        )

    @rule(
        number=MEMBERS,
        topics=st.frozensets(st.sampled_from(TOPICS)),
        regex=st.sampled_from([None, None, "[ab]", ".*"]),
        assignor=st.sampled_from([None, "uniform", "range"]),
        static=st.booleans(),
    )
    def join(
        self, number: int, topics: frozenset[str], regex: str | None, assignor: str | None, static: bool
    ) -> None:
        if number in self.consumers:
            return
        self.joined += 1
        consumer = Consumer(f"m{self.joined}", instance_id=f"i{number}" if static else None)
        self._send_join(number, consumer, topics, regex, assignor)

    def _send_join(
        self, number: int, consumer: Consumer, topics: frozenset[str], regex: str | None, assignor: str | None
    ) -> None:
        try:
            answer = self.driver.join(
                consumer.member_id,
                *topics,
                topic_regex=regex,
                server_assignor=assignor,
                instance_id=consumer.instance_id,
            )
        except UnreleasedInstanceId:
            assert consumer.instance_id in self.driver.group.static_members
        except BrokerError:
            assert len(self.driver.group.members) >= MAX_SIZE
        else:
            consumer.topics, consumer.regex = topics, regex
            consumer.hear(answer)
            self.consumers[number] = consumer

    @rule(number=MEMBERS, give_up=st.booleans(), heard=st.booleans(), tells=st.booleans())
    def heartbeat(self, number: int, give_up: bool, heard: bool, tells: bool) -> None:
        """`heard`: whether the answer arrives; `tells`: whether it says what it owns."""
        consumer = self.consumers.get(number)
        if consumer is not None:
            if give_up:
                consumer.give_up()
            self._send(consumer, heard=heard, tells=tells or not heard)

    def _send(self, consumer: Consumer, *, heard: bool = True, tells: bool = True) -> None:
        try:
            answer = self.driver.heartbeat(
                consumer.member_id,
                consumer.epoch,
                instance_id=consumer.instance_id,
                owned=dict(consumer.owned) if tells else None,
            )
        except (FencedMemberEpoch, UnknownMemberId):
            self._start_again(consumer)
        except GroupMaxSizeReached:
            # Others have taken the place of a member that was removed, which Kafka, too, checks first; the
            # client gives up.
            assert consumer.member_id not in self.driver.group.members
            assert len(self.driver.group.members) >= MAX_SIZE
            self.consumers = {number: each for number, each in self.consumers.items() if each is not consumer}
        else:
            if heard:
                consumer.hear(answer)

    def _start_again(self, consumer: Consumer) -> None:
        """What a fenced client does: it lets go of everything and joins under its id."""
        consumer.owned, consumer.told, consumer.epoch = {}, {}, 0
        for number, known in list(self.consumers.items()):
            if known is consumer:
                del self.consumers[number]
                self._send_join(number, consumer, consumer.topics, consumer.regex, None)

    @rule(number=MEMBERS, topics=st.frozensets(st.sampled_from(TOPICS)))
    def subscribe(self, number: int, topics: frozenset[str]) -> None:
        consumer = self.consumers.get(number)
        if consumer is None or consumer.member_id not in self.driver.group.members:
            return
        consumer.topics = topics
        try:
            answer = self.driver.heartbeat(
                consumer.member_id,
                consumer.epoch,
                topic_names=topics,
                instance_id=consumer.instance_id,
                owned=dict(consumer.owned),
                rebalance_timeout_ms=30_000,
            )
        except FencedMemberEpoch:
            self._start_again(consumer)
        else:
            consumer.hear(answer)

    @rule(number=MEMBERS)
    def leave(self, number: int) -> None:
        consumer = self.consumers.pop(number, None)
        if consumer is not None and consumer.member_id in self.driver.group.members:
            epoch = -2 if consumer.instance_id else -1
            self.driver.heartbeat(consumer.member_id, epoch, instance_id=consumer.instance_id)

    @rule(number=MEMBERS, notices=st.booleans())
    def time_out(self, number: int, notices: bool) -> None:
        """A member is not heard of; one that does not notice goes on until it is told."""
        consumer = self.consumers.get(number)
        if consumer is None or consumer.member_id not in self.driver.group.members:
            return
        self.driver.carry_out(
            run_to_end(depart(self.driver.group, [consumer.member_id], self.driver.context()))
        )
        consumer.owned = {}
        if notices:
            del self.consumers[number]

    @rule(name=st.sampled_from(TOPICS), partitions=st.integers(1, 6))
    def create_or_grow(self, name: str, partitions: int) -> None:
        entry = self.driver.topics.by_name(name)
        self.driver.topics.put(name, max(partitions, entry.partitions if entry else 0))

    @rule(name=st.sampled_from(TOPICS))
    def delete_topic(self, name: str) -> None:
        if self.driver.topics.by_name(name):
            self.driver.topics.delete(name)

    @rule(ms=st.integers(1, 20_000))
    def wait(self, ms: int) -> None:
        self.driver.now_ms += ms

    @rule()
    def restart(self) -> None:
        """The broker starts again and knows what its log tells, which is everything."""
        replayed = self.driver.replayed()
        assert attrs.evolve(replayed, topics_version=None) == attrs.evolve(
            self.driver.group, topics_version=None
        )
        assert list(replayed.members) == list(self.driver.group.members), "the first one may lead"
        self.driver.group = replayed

    @precondition(lambda self: self.consumers)
    @rule()
    def settle(self) -> None:
        """Heartbeats alone bring everybody to where they are to be; members that stopped are removed."""
        present = {consumer.member_id for consumer in self.consumers.values()}
        gone = [member_id for member_id in self.driver.group.members if member_id not in present]
        if gone:
            self.driver.carry_out(run_to_end(depart(self.driver.group, gone, self.driver.context())))
        for _ in range(HEARTBEATS_TO_SETTLE):
            self.driver.now_ms += 11_000
            for consumer in list(self.consumers.values()):
                consumer.give_up()
                self._send(consumer)
        assert self.driver.group.state is ConsumerGroupState.STABLE
        for consumer in self.consumers.values():
            assert consumer.owned == self.driver.group.targets.get(consumer.member_id, {})
        self._check_complete()

    def _check_complete(self) -> None:
        """Every partition of every topic that somebody wants has an owner."""
        group, topics = self.driver.group, self.driver.topics
        wanted = {name for member in group.members.values() for name in group.subscribed_names(member)}
        entries = [entry for name in wanted if (entry := topics.by_name(name))]
        owned = {topic_id: set(owners) for topic_id, owners in group.owners.items()}
        assert owned == {entry.topic_id: set(range(entry.partitions)) for entry in entries}

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        taken: dict[tuple[bytes, int], str] = {}
        for consumer in self.consumers.values():
            for topic_id, partitions in consumer.owned.items():
                for partition in partitions:
                    assert taken.setdefault((topic_id, partition), consumer.member_id) == consumer.member_id

    @invariant()
    def epochs_never_go_back(self) -> None:
        if hasattr(self, "driver"):
            assert self.driver.group.epoch >= self.epoch
            self.epoch = self.driver.group.epoch
            assert self.driver.group.assignment_epoch <= self.epoch


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(stateful_step_count=40, max_examples=40)
