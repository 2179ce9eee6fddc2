"""Topics of the source and what they become at the target: created, extended and configured likewise.

`survey` asks the source, `follow_topics` changes the target, and what was followed becomes records of the
ledger. Only what has changed at the source since then is changed at the target: so a configuration that was
set at the target stays, and two clusters that mirror each other do not revert each other's changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from tidelog.kernel.topic_partition import TopicPartition
from tidelog.plugins.client.batches import NewRecord
from tidelog.plugins.client.cluster import NO_TOPIC_ID
from tidelog.plugins.client.errors import ClientError, ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.operations.configs import ConfigChange, alter_configs, describe_configs
from tidelog.plugins.client.operations.metadata import metadata
from tidelog.plugins.client.operations.topics import NewTopic, create_partitions, create_topics
from tidelog.plugins.mirror.errors import MirrorRefused
from tidelog.plugins.mirror.ledger import FollowedTopic, topic_record
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tidelog.plugins.client.cluster import TopicMetadata
    from tidelog.plugins.client.steps import Session, Steps
    from tidelog.plugins.mirror.ledger import Ledger
    from tidelog.plugins.mirror.settings import MirrorSettings

NO_ID: Final = NO_TOPIC_ID.hex
"""Of a topic in a cluster without ids."""


@attrs.frozen
class SourceTopic:
    """A topic of the source: its id as hexadecimal digits, partitions, and what it sets itself.

    The configuration is None where the source does not say it.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    config: Mapping[str, str] | None

    @property
    def has_id(self) -> bool:
        """Whether the source gives topics ids, so that one that is made again is known as another one."""
        return self.topic_id != NO_ID


@attrs.frozen
class TopicRoute:
    """Where the records of a topic go.

    Attributes:
        source: the topic at the source
        target: its copy
        target_partitions: how many the copy has
    """

    source: SourceTopic
    target: str
    target_partitions: int


@attrs.frozen
class Followed:
    """What `follow_topics` has done.

    Attributes:
        routes: by the name of the topic at the source
        records: for the ledger
        begun_again: topics of which source or copy is another one than before, so all is copied again
        problems: what the target refuses, by the name of the topic at the source
    """

    routes: dict[str, TopicRoute] = attrs.field(factory=dict[str, TopicRoute])
    records: list[NewRecord] = attrs.field(factory=list[NewRecord])
    begun_again: set[str] = attrs.field(factory=set[str])
    problems: dict[str, str] = attrs.field(factory=dict[str, str])


def survey(session: Session, settings: MirrorSettings, left_out: Collection[str]) -> Steps[list[SourceTopic]]:
    """Return the topics to copy, by name; not those in `left_out`.

    Raises:
        ClientError: the source did not answer.
    """
    found = yield from metadata(session)
    chosen = [
        topic
        for name, topic in sorted(found.topics.items())
        if not topic.is_internal and name not in left_out and settings.topics.matches(name)
    ]
    configs: dict[str, dict[str, str]] = {}
    if settings.follows_configs and chosen:
        configs = yield from _configs(session, [topic.name for topic in chosen], settings.not_followed)
    return [
        SourceTopic(
            topic.name,
            topic.topic_id.hex,
            tuple(part.index for part in topic.partitions),
            configs.get(topic.name),
        )
        for topic in chosen
    ]


def follow_topics(
    session: Session, settings: MirrorSettings, topics: Sequence[SourceTopic], ledger: Ledger
) -> Steps[Followed]:
    """Create, extend and configure the copies as the topics of the source are; what fails is a problem.

    Raises:
        MirrorRefused: two topics would have one copy, or a copy no valid name.
        ClientError: the target did not answer.
    """
    followed = Followed()
    by_target = _by_target(settings, topics)
    there: dict[str, TopicMetadata] = {}
    if by_target:
        there.update((yield from metadata(session, list(by_target))).topics)
    missing = {name: topic for name, topic in by_target.items() if name not in there}
    created: set[str] = set()
    if missing:
        created = yield from _create(session, settings, missing, followed)
        there |= (yield from metadata(session, sorted(created))).topics if created else {}
    growing = {
        name: len(topic.partitions)
        for name, topic in by_target.items()
        if settings.keeps_partitions and name in there and len(topic.partitions) > len(there[name].partitions)
    }
    if growing:
        yield from _extend(session, growing, by_target, followed)
        there |= (yield from metadata(session, sorted(growing))).topics
    for name, topic in by_target.items():
        if name in there:
            yield from _follow(session, topic, there[name], ledger, followed, is_new=name in created)
    return followed


def _by_target(settings: MirrorSettings, topics: Sequence[SourceTopic]) -> dict[str, SourceTopic]:
    by_target: dict[str, SourceTopic] = {}
    for topic in topics:
        name = settings.renaming.target_of(topic.name)
        other = by_target.setdefault(name, topic)
        if other is not topic:
            raise MirrorRefused(f"{other.name} and {topic.name} of the source would both be copied to {name}")
    return by_target


def _create(
    session: Session, settings: MirrorSettings, missing: Mapping[str, SourceTopic], followed: Followed
) -> Steps[set[str]]:
    """Create copies; return the names of those that are there now."""

    def new(name: str, config: Mapping[str, str]) -> NewTopic:
        return NewTopic(name, len(missing[name].partitions), settings.replication_factor, config)

    outcomes = yield from create_topics(
        session, [new(name, each.config or {}) for name, each in missing.items()]
    )
    refused = [name for name, each in outcomes.items() if _has_code(each, ErrorCode.INVALID_CONFIG)]
    if refused:
        # The target lacks a key, or a value of it: without, the copy is better than none.
        for name in refused:
            followed.problems[missing[name].name] = f"created without its configuration: {outcomes[name]}"
        outcomes |= yield from create_topics(session, [new(name, {}) for name in refused])
    created: set[str] = set()
    for name, outcome in outcomes.items():
        if not isinstance(outcome, ClientError):
            created.add(name)
        elif not _has_code(outcome, ErrorCode.TOPIC_ALREADY_EXISTS):
            followed.problems[missing[name].name] = f"the target does not create {name}: {outcome}"
    for name in created:
        session.cluster.forget_topic(name)
    return created


def _extend(
    session: Session,
    growing: Mapping[str, int],
    by_target: Mapping[str, SourceTopic],
    followed: Followed,
) -> Steps[None]:
    outcomes = yield from create_partitions(session, growing)
    for name, outcome in outcomes.items():
        if isinstance(outcome, ClientError):
            problem = f"the target does not add partitions to {name}, which has fewer than the source"
            followed.problems[by_target[name].name] = f"{problem}: {outcome}"


def _follow(
    session: Session,
    topic: SourceTopic,
    copy: TopicMetadata,
    ledger: Ledger,
    followed: Followed,
    *,
    is_new: bool,
) -> Steps[None]:
    before = ledger.topics.get(topic.name)
    config: Mapping[str, str] = topic.config or {}
    if topic.config is None and before is not None:
        config = before.config
    now = FollowedTopic(topic.topic_id, copy.name, copy.topic_id.hex, config)
    if before is not None and (ids_differ(before.topic_id, now.topic_id) or _is_another_copy(before, now)):
        followed.begun_again.add(topic.name)
    if before is not None and not is_new and before.config != now.config:
        problem = yield from _configure(session, copy.name, before.config, now.config)
        if problem is not None:
            followed.problems[topic.name] = problem
    if now != before:
        followed.records.append(topic_record(topic.name, now))
    followed.routes[topic.name] = TopicRoute(topic, copy.name, len(copy.partitions))


def _is_another_copy(before: FollowedTopic, now: FollowedTopic) -> bool:
    return before.target != now.target or ids_differ(before.target_id, now.target_id)


def ids_differ(one: str, other: str) -> bool:
    """Return whether two ids are of different topics; brokers before Apache Kafka 2.8 have none."""
    return one != other and NO_ID not in (one, other)


def _configure(
    session: Session, name: str, before: Mapping[str, str], now: Mapping[str, str]
) -> Steps[str | None]:
    """Apply what has changed; return what is wrong."""
    changes = [ConfigChange(key, value) for key, value in now.items() if before.get(key) != value]
    changes += [ConfigChange(key, operation="delete") for key in before if key not in now]
    for change in changes:
        try:
            outcome = (yield from alter_configs(session, {name: [change]}))[name]
        except UnsupportedByBroker as error:
            outcome = error
        if isinstance(outcome, ClientError):
            return f"the target does not take {change.name} = {change.value} for {name}: {outcome}"
    return None


def _configs(
    session: Session, names: Sequence[str], not_followed: Collection[str]
) -> Steps[dict[str, dict[str, str]]]:
    try:
        outcomes = yield from describe_configs(session, names)
    except UnsupportedByBroker:
        # Before Apache Kafka 0.11 only ZooKeeper knows.
        return {}
    return {
        name: {
            each.name: each.value
            for each in outcome
            if each.is_own and each.value is not None and each.name not in not_followed
        }
        for name, outcome in outcomes.items()
        if not isinstance(outcome, ClientError)
    }


def _has_code(outcome: object, code: ErrorCode) -> bool:
    return isinstance(outcome, ErrorResponse) and outcome.code is code


def partitions_of(route: TopicRoute) -> list[TopicPartition]:
    """Return the partitions of the source."""
    return [TopicPartition(route.source.name, number) for number in route.source.partitions]
