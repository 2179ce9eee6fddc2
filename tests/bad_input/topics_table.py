"""Topics that cannot be created, deleted or described."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

from .case import ALL_VERSIONS, CLOSED, KAFKA_STUMBLES, NOTHING, OK, Case, Differs
from .raw_client import NODE_ID, TIMEOUT_MS, RawClient
from .requests import Sent, ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .case import Sends

ZERO_ID, UNUSED_ID = bytes(16), bytes(range(16))
BAD_NAME, BAD_CONFIG, BAD_REQUEST = "INVALID_TOPIC_EXCEPTION", "INVALID_CONFIG", "INVALID_REQUEST"
BAD_PARTITIONS, BAD_REPLICATION = "INVALID_PARTITIONS", "INVALID_REPLICATION_FACTOR"
BAD_ASSIGNMENT, TOO_MANY = "INVALID_REPLICA_ASSIGNMENT", "POLICY_VIOLATION"
UNKNOWN, UNKNOWN_ID, EXISTS = "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_ALREADY_EXISTS"
NO_QUEUE = "a topic is created at once and not by a controller whose answer may come too late"
DEFAULT = -1

_numbers = itertools.count()


def _topic(
    name: str | None = None,
    partitions: int = 1,
    replicas: int = 1,
    *,
    config: Sequence[tuple[str, str | None]] = (),
    assigned: Sequence[tuple[int, list[int]]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=f"created-{next(_numbers)}" if name is None else name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in assigned],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config],
    )


def _creates(*topics: CreatableTopic, version: int = 7, timeout_ms: int = TIMEOUT_MS) -> Sends:
    # What is refused must not be there already; only checking what is fine keeps it so for the next run.
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=version > 0)
    return lambda _: ask(apis.CREATE_TOPICS, version, request)


def _creates_again(client: RawClient) -> Sent:
    return ask(apis.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[_topic(client.topic)]))


def _creates_what_collides(client: RawClient) -> list[Sent]:
    names = f"{client.topic}.{next(_numbers)}.a", f"{client.topic}.{next(_numbers)}.a"
    dotted, underscored = names[0], names[0].replace(".", "_")
    return [
        ask(apis.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[_topic(name)]))
        for name in (dotted, underscored)
    ]


def _assigns(*assigned: tuple[int, list[int]], partitions: int = DEFAULT, replicas: int = DEFAULT) -> Sends:
    return _creates(_topic(partitions=partitions, replicas=replicas, assigned=assigned))


NAMES = (
    *(
        Case(f"creates a topic named {told}", _creates(_topic(name)), BAD_NAME)
        for told, name in (
            ("nothing", ""),
            ("dot", "."),
            ("two dots", ".."),
            ("with 250 characters", "a" * 250),
            ("with a slash", "a/b"),
            ("as a way out of the folder", "../../etc/passwd"),
            ("with a space", "a b"),
            ("with an umlaut", "ä"),
            ("with a zero byte", "a\0b"),
            ("with a line feed", "a\n"),
        )
    ),
    Case(
        "creates a topic named with 32,767 odd characters",
        _creates(_topic("\1" * 32_767)),
        "UNKNOWN_SERVER_ERROR",
        tidelog=Differs(BAD_NAME, KAFKA_STUMBLES),
    ),
    Case("creates the metadata log", _creates(_topic("__cluster_metadata")), BAD_REQUEST),
    Case("creates a topic that is there", _creates_again, EXISTS),
    Case("creates a topic whose metrics would collide", _creates_what_collides, BAD_NAME),
    Case("creates a topic twice", _creates(_topic("twice"), _topic("twice")), BAD_REQUEST),
    Case("creates nothing", _creates(), NOTHING),
)

NUMBERS = (
    Case("creates 0 partitions", _creates(_topic(partitions=0)), BAD_PARTITIONS),
    Case("creates -5 partitions", _creates(_topic(partitions=-5)), BAD_PARTITIONS),
    Case("creates 10,001 partitions", _creates(_topic(partitions=10_001)), TOO_MANY),
    Case("creates 2^31-1 partitions", _creates(_topic(partitions=0x7FFFFFFF)), TOO_MANY),
    Case(
        "creates 10,001 partitions in two topics",
        _creates(_topic(partitions=5_000), _topic(partitions=5_001)),
        f"{TOO_MANY},{TOO_MANY}",
    ),
    Case("creates 3 replicas", _creates(_topic(replicas=3)), BAD_REPLICATION),
    Case("creates 0 replicas", _creates(_topic(replicas=0)), BAD_REPLICATION),
    Case("creates -5 replicas", _creates(_topic(replicas=-5)), BAD_REPLICATION),
    Case(
        "creates with a negative timeout",
        _creates(_topic(), timeout_ms=-1),
        "REQUEST_TIMED_OUT",
        tidelog=Differs(OK, NO_QUEUE),
    ),
)

CONFIGS = (
    Case("creates with an unknown key", _creates(_topic(config=[("no.such.key", "1")])), BAD_CONFIG),
    Case("creates with a key of the broker", _creates(_topic(config=[("log.dirs", "/tmp")])), BAD_CONFIG),
    Case("creates with an empty key", _creates(_topic(config=[("", "1")])), BAD_CONFIG),
    Case("creates with a word for a number", _creates(_topic(config=[("retention.ms", "soon")])), BAD_CONFIG),
    Case("creates with a value out of range", _creates(_topic(config=[("segment.bytes", "-3")])), BAD_CONFIG),
    Case("creates with an unknown policy", _creates(_topic(config=[("cleanup.policy", "burn")])), BAD_CONFIG),
    Case("creates with null for a value", _creates(_topic(config=[("retention.ms", None)])), BAD_CONFIG),
    Case(
        "creates with a key twice",
        _creates(_topic(config=[("retention.ms", "1"), ("retention.ms", "2")])),
        OK,
    ),
)

ASSIGNMENTS = (
    Case("assigns and counts partitions", _assigns((0, [NODE_ID]), partitions=1), BAD_REQUEST),
    Case("assigns and counts replicas", _assigns((0, [NODE_ID]), replicas=1), BAD_REQUEST),
    Case("assigns with a gap", _assigns((0, [NODE_ID]), (2, [NODE_ID])), BAD_ASSIGNMENT),
    Case("assigns from 1 on", _assigns((1, [NODE_ID])), BAD_ASSIGNMENT),
    Case("assigns a partition twice", _assigns((0, [NODE_ID]), (0, [NODE_ID])), BAD_ASSIGNMENT),
    Case("assigns to a broker that is not there", _assigns((0, [99])), BAD_ASSIGNMENT),
    Case("assigns to no broker", _assigns((0, [])), BAD_ASSIGNMENT),
    Case("assigns to a broker twice", _assigns((0, [NODE_ID, NODE_ID])), BAD_ASSIGNMENT),
)


def _deletes(version: int, *names: str) -> Sends:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], topic_names=list(names), timeout_ms=TIMEOUT_MS
    )
    if version < 6:
        request.topics = []
    return lambda _: ask(apis.DELETE_TOPICS, version, request)


def _deletes_states(*states: DeleteTopicState) -> Sent:
    return ask(apis.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=list(states), timeout_ms=TIMEOUT_MS))


DELETIONS = (
    Case("deletes a topic that is not there", _deletes(5, "nowhere"), UNKNOWN),
    Case("deletes a topic that is not there in version 6", _deletes(6, "nowhere"), UNKNOWN),
    Case("deletes a topic named with a slash", _deletes(6, "a/b"), UNKNOWN),
    Case(
        "deletes an id that is not there",
        lambda _: _deletes_states(DeleteTopicState(topic_id=UNUSED_ID)),
        UNKNOWN_ID,
    ),
    Case("deletes neither a name nor an id", lambda _: _deletes_states(DeleteTopicState()), BAD_REQUEST),
    Case(
        "deletes by name and id at once",
        lambda s: _deletes_states(DeleteTopicState(name=s.topic, topic_id=s.topic_id)),
        BAD_REQUEST,
    ),
    Case(
        "deletes the same by its name and by its id",
        lambda s: _deletes_states(DeleteTopicState(name=s.topic), DeleteTopicState(topic_id=s.topic_id)),
        BAD_REQUEST,
    ),
    Case("deletes a topic twice", lambda s: _deletes(5, s.topic, s.topic)(s), BAD_REQUEST),
    Case("deletes a topic twice that is not there", _deletes(6, "nowhere", "nowhere"), BAD_REQUEST),
    Case("deletes nothing", _deletes(6), NOTHING),
)


def _describes(version: int, *topics: tuple[str | None, bytes], creates: bool = False) -> Sends:
    asked = [MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in topics]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=creates)
    return lambda _: ask(apis.METADATA, version, request)


DESCRIPTIONS = (
    Case("describes a topic that is not there", _describes(9, ("nowhere", ZERO_ID)), UNKNOWN),
    Case("describes it twice", _describes(9, ("nowhere", ZERO_ID), ("nowhere", ZERO_ID)), UNKNOWN),
    Case("describes a topic twice", lambda s: _describes(9, (s.topic, ZERO_ID), (s.topic, ZERO_ID))(s), OK),
    *(
        Case(f"describes a topic named {told}", _describes(9, (name, ZERO_ID), creates=creates), BAD_NAME)
        for told, name, creates in (
            ("with a slash", "a/b", False),
            ("with a slash, to be created", "a/b", True),
            ("two dots, to be created", "..", True),
            ("nothing, to be created", "", True),
            ("with 250 characters, to be created", "a" * 250, True),
        )
    ),
    Case("describes an id that is not there", _describes(12, (None, UNUSED_ID)), UNKNOWN_ID),
    Case("describes a name with an id that is not there", _describes(12, ("nowhere", UNUSED_ID)), UNKNOWN_ID),
    Case("describes an id in version 10", _describes(10, (None, UNUSED_ID)), BAD_REQUEST),
    Case("describes neither a name nor an id in version 10", _describes(10, (None, ZERO_ID)), BAD_REQUEST),
    Case(
        "describes neither a name nor an id",
        _describes(12, (None, ZERO_ID)),
        "UNKNOWN_SERVER_ERROR",
        tidelog=Differs(BAD_NAME, KAFKA_STUMBLES),
    ),
)

VERSIONS = (
    Case("creates in version 0", _creates(_topic(), version=0), CLOSED, tidelog=Differs(OK, ALL_VERSIONS)),
    Case("creates in version 1", _creates(_topic(), version=1), CLOSED, tidelog=Differs(OK, ALL_VERSIONS)),
    Case("deletes in version 0", _deletes(0, "nowhere"), CLOSED, tidelog=Differs(UNKNOWN, ALL_VERSIONS)),
)

CASES = (*NAMES, *NUMBERS, *CONFIGS, *ASSIGNMENTS, *DELETIONS, *DESCRIPTIONS, *VERSIONS)
