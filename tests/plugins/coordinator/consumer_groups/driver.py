"""A group to decide about, without a log, a clock or a broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.kernel.pace import run_to_end
from tidelog.kernel.regexes import compile_regex
from tidelog.kernel.seams.coordination.assignors import PartitionsByTopic
from tidelog.kernel.seams.coordination.consumer_groups import ConsumerGroupHeartbeat, HeartbeatAnswer
from tidelog.plugins.coordinator.assignors import RangeAssignor, UniformAssignor
from tidelog.plugins.coordinator.consumer_groups.checks import check_request
from tidelog.plugins.coordinator.consumer_groups.draft import Draft
from tidelog.plugins.coordinator.consumer_groups.group import ConsumerGroup
from tidelog.plugins.coordinator.consumer_groups.machine.consumer_requests import (
    changes_nothing,
    heartbeat,
    leave,
)
from tidelog.plugins.coordinator.consumer_groups.records import read_change
from tidelog.plugins.coordinator.consumer_groups.service import regexes_to_resolve
from tidelog.plugins.coordinator.consumer_groups.settings import Context, Settings
from tidelog.plugins.coordinator.consumer_groups.topics import TopicEntry
from tidelog.plugins.coordinator.runtime import StateRecord

GROUP = "g"
SETTINGS = Settings(
    assignors={"uniform": UniformAssignor(), "range": RangeAssignor()}, assignment_interval_ms=0
)


class FakeTopics:
    """Topics by name; creating, growing and deleting them raises the version."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._entries: dict[str, TopicEntry] = {}
        self._created = 0
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int) -> None:
        """Create a topic, or give it that many partitions."""
        known = self._entries.get(name)
        self._created += known is None
        topic_id = known.topic_id if known else self._created.to_bytes(16)
        self._entries[name] = TopicEntry(topic_id, name, partitions)
        self.version += 1

    def delete(self, name: str) -> None:
        """Delete a topic."""
        del self._entries[name]
        self.version += 1

    def by_name(self, name: str) -> TopicEntry | None:
        """See `TopicCatalogue`."""
        return self._entries.get(name)

    def by_id(self, topic_id: bytes) -> TopicEntry | None:
        """See `TopicCatalogue`."""
        return next((entry for entry in self._entries.values() if entry.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        """See `TopicCatalogue`."""
        return list(self._entries)

    def id_of(self, name: str) -> bytes:
        """The id of a topic that is there."""
        return self._entries[name].topic_id


class ConsumerGroupDriver:
    """Sends requests to one group, with a log and a clock; what is decided is carried out at once."""

    def __init__(self, topics: FakeTopics | None = None, settings: Settings = SETTINGS) -> None:
        self.topics = topics or FakeTopics(t=4)
        self.settings = settings
        self.group = ConsumerGroup(GROUP)
        self.log: list[StateRecord] = []
        self.now_ms = 1_000_000
        self.answered_at_once = 0

    def context(self, resolved: Mapping[str, frozenset[str]] | None = None) -> Context:
        """What decisions are made with."""
        return Context(self.settings, self.topics, self.now_ms, resolved or {})

    def heartbeat(self, member_id: str, epoch: int, **rest: object) -> HeartbeatAnswer:
        """A request of a member; the fields are those of `ConsumerGroupHeartbeat`."""
        request = ConsumerGroupHeartbeat(GROUP, member_id, epoch)._replace(**rest)  # type: ignore[arg-type]
        check_request(request, self.settings.assignors)
        if epoch < 0:
            decision = run_to_end(leave(self.group, request, self.context()))
        else:
            wanted = regexes_to_resolve(self.group, request.topic_regex, self.context())
            names = list(self.topics.names())
            compiled = map(compile_regex, wanted)
            resolved = {each.text: frozenset(filter(each.fullmatch, names)) for each in compiled}
            member = self.group.members.get(member_id)
            fast = member is not None and changes_nothing(self.group, member, request, self.topics)
            decision = run_to_end(heartbeat(self.group, request, self.context(resolved)))
            if fast:
                assert decision.draft is None
                self.answered_at_once += 1
        if decision.draft is not None:
            self.carry_out(decision.draft)
        return decision.answer

    def join(self, member_id: str, *topics: str, **rest: object) -> HeartbeatAnswer:
        """A member joins, or joins again, and subscribes to these topics."""
        given: dict[str, object] = {
            "rebalance_timeout_ms": 30_000,
            "owned": {},
            "topic_names": frozenset(topics),
        }
        return self.heartbeat(member_id, 0, **(given | rest))

    def carry_out(self, draft: Draft) -> None:
        """Write and take over what was decided."""
        self.log += run_to_end(draft.to_records())
        self.group = draft.merge()

    def replayed(self) -> ConsumerGroup:
        """The group that the log tells of."""
        group = ConsumerGroup(GROUP)
        for record in self.log:
            change = read_change(record.key, record.value)
            assert change.group_id == GROUP
            change.apply(group)
        return group

    def owned(self, answer: HeartbeatAnswer) -> dict[str, set[int]]:
        """The assignment in an answer, by the names of topics."""
        assert answer.assignment is not None
        return self.named(answer.assignment)

    def named(self, partitions: PartitionsByTopic) -> dict[str, set[int]]:
        """Partitions by the names of their topics."""
        entries = {topic_id: self.topics.by_id(topic_id) for topic_id in partitions}
        return {entry.name: set(partitions[topic_id]) for topic_id, entry in entries.items() if entry}

    def partitions(self, **topics: Iterable[int]) -> PartitionsByTopic:
        """Partitions by the ids of their topics."""
        return {self.topics.id_of(name): frozenset(numbers) for name, numbers in topics.items()}
