"""CreateTopics (API 19): create topics, or only validate the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.kernel.config import Config, keys
from tidelog.kernel.errors import (
    BrokerError,
    InvalidReplicaAssignment,
    InvalidRequest,
    InvalidTopicConfig,
    PolicyViolation,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.plugins.protocol_kafka.apis.describe_configs import TopicConfigEntry, topic_config_entries
from tidelog.plugins.protocol_kafka.context import RequestContext
from tidelog.plugins.protocol_kafka.errors import error_code
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.plugins.schema import ZERO_UUID, Uuid

DEFAULT = -1
DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5
MAX_PARTITIONS_PER_REQUEST = 10_000
"""Most partitions that one request creates, as in Apache Kafka."""
MAX_CONFIGS_PER_TOPIC = 200
"""Most settings of one topic; there are fewer than a hundred keys."""
SOURCES = {"topic": DYNAMIC_TOPIC_CONFIG, "broker": STATIC_BROKER_CONFIG, "default": DEFAULT_CONFIG}


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Handle each topic independently: an error of one does not affect the others."""
    partitions = 0
    pace = Pace()
    described = _Described(context.broker.config)
    for topic in request.topics:
        partitions += _partitions(context, topic)
        await pace.turn()
    refusal = _too_many(partitions) if partitions > MAX_PARTITIONS_PER_REQUEST else None
    asked = Counter(topic.name for topic in request.topics)
    wanted: dict[str, TopicSpec] = {}
    refused: dict[str, BrokerError] = {}
    for topic in request.topics:
        try:
            spec = _new_topic(context, topic, asked[topic.name], refusal)
            if context.mutations is not None:
                context.mutations.charge(len(context.broker.controller.check_topic(spec).partitions))
            wanted[topic.name] = spec
        except BrokerError as error:
            refused[topic.name] = error
        await pace.turn()
    make = _validate if request.validate_only else _create
    outcomes = {**await make(context, wanted), **refused}
    results: list[CreatableTopicResult] = []
    for name in asked:
        outcome = outcomes[name]
        if isinstance(outcome, BrokerError):
            results.append(_refused(context, name, outcome))
        else:
            results.append(_made(name, outcome, described.configs_of(wanted[name])))
        await pace.turn()
    return CreateTopicsResponse(topics=results)


def _partitions(context: RequestContext, topic: CreatableTopic) -> int:
    """Return the number of requested partitions; 0 for one that is refused anyway."""
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == DEFAULT:
        return context.broker.config[keys.NUM_PARTITIONS]
    return max(topic.num_partitions, 0)


def _too_many(partitions: int) -> PolicyViolation:
    return PolicyViolation(
        f"a request may create {MAX_PARTITIONS_PER_REQUEST} partitions at most, and this one asks for "
        f"{partitions}; create them with several requests"
    )


class _Made(NamedTuple):
    """Id and number of partitions of a topic that was created, or would be."""

    topic_id: Uuid
    partitions: int


async def _create(
    context: RequestContext, wanted: Mapping[str, TopicSpec]
) -> Mapping[str, _Made | BrokerError]:
    created = await context.broker.controller.create_topics([*wanted.values()])
    return {
        name: topic if isinstance(topic, BrokerError) else _Made(topic.topic_id.bytes, len(topic.partitions))
        for name, topic in zip(wanted, created, strict=True)
    }


async def _validate(
    context: RequestContext, wanted: Mapping[str, TopicSpec]
) -> Mapping[str, _Made | BrokerError]:
    outcomes: dict[str, _Made | BrokerError] = {}
    pace = Pace()
    for name, new in wanted.items():
        try:
            topic = context.broker.controller.check_topic(new)
            outcomes[name] = _Made(ZERO_UUID, len(topic.partitions))
        except BrokerError as error:
            outcomes[name] = error
        await pace.turn()
    return outcomes


def _made(name: str, made: _Made, configs: list[CreatableTopicConfigs]) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=made.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=made.partitions,
        replication_factor=1,
        configs=configs,
    )


def _refused(context: RequestContext, name: str, error: BrokerError) -> CreatableTopicResult:
    context.warn(f"refusing to create topic {name!r} for", error)
    return CreatableTopicResult(
        name=name, error_code=error_code(error), error_message=context.error_message(error)
    )


def _new_topic(
    context: RequestContext, topic: CreatableTopic, asked: int, refusal: BrokerError | None
) -> TopicSpec:
    """Return the topic that is asked for, `asked` times; raise `refusal` if the whole request is refused."""
    if refusal is not None:
        raise refusal
    if asked > 1:
        raise InvalidRequest(f"topic {topic.name!r} is in the request {asked} times")
    partitions = topic.num_partitions
    if topic.assignments:
        partitions = _assigned_partitions(context, topic)
    if len(topic.configs) > MAX_CONFIGS_PER_TOPIC:
        raise InvalidRequest(
            f"topic {topic.name!r} has {len(topic.configs)} settings, more than {MAX_CONFIGS_PER_TOPIC}"
        )
    # As in Kafka, the last value of a key that is repeated counts.
    return TopicSpec(topic.name, partitions, topic.replication_factor, dict(map(_setting, topic.configs)))


def _setting(entry: CreatableTopicConfig) -> tuple[str, str]:
    if entry.value is None:
        raise InvalidTopicConfig(f"{entry.name} has no value; leave it out for the broker's default")
    return entry.name, entry.value


def _assigned_partitions(context: RequestContext, topic: CreatableTopic) -> int:
    """Return the number of partitions of a manual assignment: each on this broker, numbered from 0 on."""
    if topic.num_partitions != DEFAULT or topic.replication_factor != DEFAULT:
        raise InvalidRequest("with a replica assignment, partitions and replication factor have to be -1")
    if sorted(entry.partition_index for entry in topic.assignments) != list(range(len(topic.assignments))):
        raise InvalidReplicaAssignment("the assigned partitions are not numbered from 0 on without a gap")
    node_id = context.broker.cluster.node_id
    for entry in topic.assignments:
        if entry.broker_ids != [node_id]:
            raise InvalidReplicaAssignment(
                f"partition {entry.partition_index} is assigned to brokers {entry.broker_ids}, "
                f"the only broker is {node_id}"
            )
    return len(topic.assignments)


class _Described:
    """Configurations of new topics in one response; topics with the same settings share theirs."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._last: tuple[Mapping[str, str], list[CreatableTopicConfigs]] | None = None

    def configs_of(self, new: TopicSpec) -> list[CreatableTopicConfigs]:
        """Return all settings of a topic, with their sources."""
        if self._last is None or self._last[0] != new.config:
            entries = topic_config_entries(self._config, new.config)
            self._last = new.config, [_config(entry) for entry in entries]
        return self._last[1]


def _config(entry: TopicConfigEntry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=entry.name,
        value=entry.value,
        read_only=False,
        config_source=SOURCES[entry.source],
        is_sensitive=False,
    )
