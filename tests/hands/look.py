"""Everything that a directory shows of itself: by reading, by the admin client, by Kafka's own tools."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from tests.clients.java_programs import run_inside_kafka
from tests.deadlines import DEADLINE_S, repeat_while_refused

TOPICS = "org.apache.kafka.tools.TopicCommand"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
FAULTS = ("isvalid: false", "Could not", "Exception", "mismatch", "out of order", "corrupt", "== failed")
SPACE = re.compile(r"\s+")
NOT_SHOWN_BY_BOTH = re.compile(r" Elr:.*|min\.insync\.replicas=1,?")
"""Eligible leader replicas, which a single node has no use for, and the default that Kafka sets with them."""
SETTLED = frozenset({ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY})
POLL_S = 0.05
LOADING_S = 60.0
QUIET: dict[str, Any] = {"log_level": 0}


@attrs.frozen
class Partition:
    """What a partition holds: where it begins, all records, and those that committed readers get."""

    beginning: int
    records: Sequence[object]
    committed: Sequence[object]


@attrs.frozen
class View:
    """What a directory shows; two views of one state are equal."""

    topics: Mapping[str, object]
    partitions: Mapping[tuple[str, int], Partition]
    offsets: Mapping[str, Mapping[tuple[str, int], int]]
    groups: Mapping[str, object]
    tools: Mapping[str, Sequence[str]]

    def without(self, topics: Iterable[str], groups: Iterable[str]) -> View:
        """Leave out what changes while the directory changes hands."""
        gone, gone_groups = set(topics), set(groups)
        words = gone | gone_groups
        return View(
            {name: topic for name, topic in self.topics.items() if name not in gone},
            {place: found for place, found in self.partitions.items() if place[0] not in gone},
            {group: found for group, found in self.offsets.items() if group not in gone_groups},
            {group: found for group, found in self.groups.items() if group not in gone_groups},
            {
                tool: [line for line in lines if words.isdisjoint(line.replace("'", "").split())]
                for tool, lines in self.tools.items()
            },
        )

    def without_records(self, topic: str) -> View:
        """Leave out the records of a topic, which compaction removes at any time."""
        kept = {place: found for place, found in self.partitions.items() if place[0] != topic}
        return attrs.evolve(self, partitions=kept)

    def differences(self, other: View) -> list[str]:
        """Describe what is not the same, a line for each thing."""
        found: list[str] = []
        for part in ("topics", "partitions", "offsets", "groups", "tools"):
            before, after = getattr(self, part), getattr(other, part)
            for key in sorted({*before, *after}, key=repr):
                if before.get(key) != after.get(key):
                    found.append(f"{part} {key!r}: {_shortened(before.get(key), after.get(key))}")
        return found


def _shortened(before: object, after: object) -> str:
    if isinstance(before, Partition) and isinstance(after, Partition):
        return "; ".join(
            f"{name} {_first_difference(getattr(before, name), getattr(after, name))}"
            for name in ("beginning", "records", "committed")
            if getattr(before, name) != getattr(after, name)
        )
    if isinstance(before, list) and isinstance(after, list):
        return f"only before {_only(before, after)}, only after {_only(after, before)}"
    return f"before {before!r}, after {after!r}"


def _only(one: list[object], other: list[object]) -> list[object]:
    return [item for item in one if item not in other]


def _first_difference(before: Any, after: Any) -> str:
    if isinstance(before, int):
        return f"{before}, then {after}"
    for index, (one, other) in enumerate(zip(before, after, strict=False)):
        if one != other:
            return f"{len(before)} and {len(after)}, first at {index}: {one!r}, then {other!r}"
    longer = before if len(before) > len(after) else after
    return f"{len(before)}, then {len(after)}: {longer[min(len(before), len(after)) :][:3]!r} more"


class Looker:
    """Looks at whichever broker is at an address."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = self._new_admin()

    def _new_admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    def look(self, groups: Collection[str] = (), *, with_tools: bool = True) -> View:
        """See everything; nobody should write meanwhile.

        Waits for a while until coordinators have read their state back and `groups` are in it, and no group
        rebalances: Apache Kafka lists none while no coordinator is elected.
        """
        # librdkafka's admin client may be unable to describe groups once its broker was away.
        self.admin = self._new_admin()
        deadline = time.monotonic() + LOADING_S
        while not self._are_settled(groups) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        topics = self._topics()
        described = self._groups()
        places = [
            TopicPartition(name, index) for name, (_, count, _) in topics.items() for index in range(count)
        ]
        return View(
            topics,
            self._partitions(places),
            {group: self._offsets(group) for group in described},
            described,
            self._tools() if with_tools else {},
        )

    def _are_settled(self, groups: Collection[str]) -> bool:
        listed = self.admin.list_consumer_groups().result(DEADLINE_S)
        found = {group.group_id: group.state for group in listed.valid}
        return not listed.errors and found.keys() >= set(groups) and SETTLED.issuperset(found.values())

    def _topics(self) -> dict[str, tuple[str, int, dict[str, str]]]:
        listed = self.admin.list_topics(timeout=DEADLINE_S).topics
        names = sorted(name for name in listed if not name.startswith("__"))
        described = self.admin.describe_topics(TopicCollection(names)) if names else {}
        found: dict[str, tuple[str, int, dict[str, str]]] = {}
        for name, future in described.items():
            topic = future.result(DEADLINE_S)
            found[name] = (str(topic.topic_id), len(topic.partitions), self._config(name))
        return found

    def _config(self, topic: str) -> dict[str, str]:
        (future,) = self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        entries = future.result(DEADLINE_S).values()
        return {entry.name: entry.value for entry in entries if entry.source == 1}

    def _partitions(self, places: Sequence[TopicPartition]) -> dict[tuple[str, int], Partition]:
        asker = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "nobody", **QUIET})
        beginnings = [
            repeat_while_refused(
                partial(asker.get_watermark_offsets, place, timeout=DEADLINE_S), KafkaException
            )[0]
            for place in places
        ]
        asker.close()
        every, committed = (self._read(places, level) for level in ("read_uncommitted", "read_committed"))
        return {
            (place.topic, place.partition): Partition(
                beginning,
                every[place.topic, place.partition],
                committed[place.topic, place.partition],
            )
            for place, beginning in zip(places, beginnings, strict=True)
        }

    def _read(self, places: Sequence[TopicPartition], isolation: str) -> dict[tuple[str, int], list[object]]:
        """All records of these partitions, up to where a reader of that level has to stop."""
        settings = {"group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "isolation.level": isolation, **settings, **QUIET}
        )
        found: dict[tuple[str, int], list[object]] = {(place.topic, place.partition): [] for place in places}
        open_places = set(found)
        try:
            consumer.assign([TopicPartition(place.topic, place.partition, -2) for place in places])
            deadline = time.monotonic() + DEADLINE_S
            while open_places:
                assert time.monotonic() < deadline, f"{sorted(open_places)} come to no end"
                for message in consumer.consume(1000, POLL_S):
                    place = (message.topic() or "", message.partition() or 0)
                    error = message.error()
                    if error is None:
                        key, value, times = message.key(), message.value(), message.timestamp()
                        found[place].append((message.offset(), key, value, times))
                        open_places.add(place)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        open_places.discard(place)
        finally:
            consumer.close()
        return found

    def _groups(self) -> dict[str, object]:
        listed = self.admin.list_consumer_groups().result(DEADLINE_S)
        kinds = {group.group_id: str(group.type) for group in listed.valid}
        found: dict[str, object] = {}
        for name, kind in kinds.items():
            # One after the other: librdkafka may give up groups that it describes at the same time.
            # A coordinator that has just started may not have taken it over yet.
            group = repeat_while_refused(partial(self._described, name), KafkaException)
            members = sorted((member.member_id, member.client_id) for member in group.members)
            found[name] = (kind, str(group.state), group.partition_assignor, members)
        return found

    def _described(self, group: str) -> Any:
        (future,) = self.admin.describe_consumer_groups([group]).values()
        return future.result(DEADLINE_S)

    def _offsets(self, group: str) -> dict[tuple[str, int], int]:
        (future,) = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        places = future.result(DEADLINE_S).topic_partitions
        return {(place.topic, place.partition): place.offset for place in places}

    def _tools(self) -> dict[str, list[str]]:
        at = ("--bootstrap-server", self.bootstrap)
        return run_tools(
            {
                "topics": (TOPICS, *at, "--describe", "--exclude-internal"),
                "offsets": (GROUPS, *at, "--describe", "--all-groups", "--offsets"),
                "members": (GROUPS, *at, "--describe", "--all-groups", "--members"),
                "states": (GROUPS, *at, "--describe", "--all-groups", "--state"),
                "transactions": (TRANSACTIONS, *at, "list"),
            }
        )


def run_tools(commands: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Run Kafka's tools in one process: the lines that each prints, in order and with single spaces."""
    told = run_inside_kafka("Tools", (), "".join("\t".join(words) + "\n" for words in commands.values()))
    parts = re.split(r"^== \d+\n", told, flags=re.MULTILINE)[1:]
    assert len(parts) == len(commands), told
    found: dict[str, list[str]] = {}
    for name, part in zip(commands, parts, strict=True):
        assert "== failed" not in part, f"{name}: {part}"
        lines = (SPACE.sub(" ", line).strip() for line in part.splitlines())
        # Headings stand before each group, however many there are.
        found[name] = sorted({_normalized(NOT_SHOWN_BY_BOTH.sub("", line).strip()) for line in lines if line})
    return found


def _normalized(line: str) -> str:
    """The configuration of a topic comes in any order."""
    head, found, configs = line.partition("Configs: ")
    return head + found + ",".join(sorted(filter(None, configs.split(","))))


def faults_in_files(logs: Sequence[Path]) -> list[str]:
    """What Kafka's DumpLogSegments finds wrong in log segments."""
    commands: dict[str, tuple[str, ...]] = {}
    plain = [path for path in logs if not path.parent.name.startswith(tuple(DECODERS))]
    if plain:
        commands["data"] = (DUMP, "--deep-iteration", "--files", ",".join(map(str, plain)))
    for topic, option in DECODERS.items():
        paths = [str(path) for path in logs if path.parent.name.startswith(topic) and path.stat().st_size]
        if paths:
            commands[topic] = (DUMP, option, "--files", ",".join(paths))
    found: list[str] = []
    for name, lines in run_tools(commands).items():
        found += [f"{name}: {line}" for line in lines if any(fault in line for fault in FAULTS)]
    return found
