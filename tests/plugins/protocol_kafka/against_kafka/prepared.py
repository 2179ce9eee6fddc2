"""What a broker has before the requests of `error_cases` come: topics, groups with a member, a producer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from tests.deadlines import wait_until
from tidelog.kernel.testing import make_batch
from tidelog.plugins.protocol_kafka.messages.api import (
    CONSUMER_GROUP_HEARTBEAT,
    CREATE_TOPICS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    PRODUCE,
    SYNC_GROUP,
    Api,
)

from .asking import Asker, message

TOPIC = "errors"
TOPICS: Mapping[str, Mapping[str, str]] = {
    TOPIC: {},
    "errors-small": {"max.message.bytes": "100"},
    "errors-segment": {"segment.bytes": "1048576", "max.message.bytes": "3000000"},
    "errors-compacted": {"cleanup.policy": "compact"},
    "errors-time": {"message.timestamp.after.max.ms": "1000"},
}
CLASSIC, CONSUMER, JOINING = "errors-classic", "errors-consumer", "errors-joining"
MEMBER, INSTANCE = "AAAAAAAAAAAAAAAAAAAAAA", "instance"
TRANSACTION = "errors-transaction"
TIMEOUT_MS = 600_000
SUBSCRIBED = b"\0\1" + b"\0\0\0\1" + b"\0\6errors" + b"\xff\xff\xff\xff" + b"\0\0\0\0"
"""A subscription of the protocol `consumer`, version 1, to `TOPIC`."""

Values = dict[str, Any]


@attrs.frozen
class Prepared:
    """A broker and what it has generated: a topic's id, members, and a transactional producer."""

    asker: Asker
    topic_id: bytes
    member: Values
    joining_member: Values
    producer: Values
    cluster_id: str
    node_id: int

    def ask(self, api: Api, version: int, values: Values) -> Any:
        """The answer to a request."""
        return self.asker.ask(api, version, message(api.request_class, values))


def joining(group: str, **changes: Any) -> Values:
    """Join a classic group."""
    return {
        "group_id": group,
        "session_timeout_ms": TIMEOUT_MS,
        "rebalance_timeout_ms": TIMEOUT_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIBED}],
        **changes,
    }


def beating(**changes: Any) -> Values:
    """A heartbeat in the consumer protocol, the first one unless something is changed."""
    return {
        "group_id": CONSUMER,
        "member_id": MEMBER,
        "rebalance_timeout_ms": TIMEOUT_MS,
        "subscribed_topic_names": [TOPIC],
        "topic_partitions": [],
        **changes,
    }


def producing(records: bytes | bytearray, topic: str = TOPIC, partition: int = 0, **changes: Any) -> Values:
    """Produce one batch."""
    data = {"name": topic, "partition_data": [{"index": partition, "records": records}]}
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": [data], **changes}


def creating(name: str, configs: Mapping[str, str] | None = None, **changes: Any) -> Values:
    """Create a topic."""
    settings = [{"name": key, "value": value} for key, value in (configs or {}).items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": settings, **changes}
    return {"topics": [topic], "timeout_ms": 30_000}


def prepare(asker: Asker) -> Prepared:
    """Create the topics, groups with a member, and a producer of transactions."""
    ids: dict[str, bytes] = {}
    for name, configs in TOPICS.items():
        # The records are years old: on a busy machine their segment would be deleted before the last case.
        (created,) = _ask(asker, CREATE_TOPICS, 7, creating(name, {**configs, "retention.ms": "-1"})).topics
        assert created.error_code == 0
        ids[name] = created.topic_id
    for name in TOPICS:
        wait_until(lambda name=name: _appended(asker, name), name)  # type: ignore[misc]
    joined = _coordinated(asker, CLASSIC, 0, JOIN_GROUP, 7, joining(CLASSIC, group_instance_id=INSTANCE))
    member = {"member_id": joined.member_id, "generation_id": joined.generation_id}
    assignments = [{"member_id": joined.member_id}]
    synced = {"group_id": CLASSIC, **member, "assignments": assignments}
    assert _ask(asker, SYNC_GROUP, 4, synced).error_code == 0
    waiting = _coordinated(asker, JOINING, 0, JOIN_GROUP, 3, joining(JOINING))
    beat = beating(instance_id=INSTANCE)
    _coordinated(asker, CONSUMER, 0, CONSUMER_GROUP_HEARTBEAT, 1, beat)
    begun = {"transactional_id": TRANSACTION, "transaction_timeout_ms": TIMEOUT_MS}
    producer = _coordinated(asker, TRANSACTION, 1, INIT_PRODUCER_ID, 4, begun)
    cluster = _ask(asker, DESCRIBE_CLUSTER, 0, {})
    return Prepared(
        asker,
        ids[TOPIC],
        member,
        {"member_id": waiting.member_id, "generation_id": waiting.generation_id},
        {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch},
        cluster.cluster_id,
        cluster.controller_id,
    )


def _ask(asker: Asker, api: Api, version: int, values: Values) -> Any:
    return asker.ask(api, version, message(api.request_class, values))


def _appended(asker: Asker, topic: str) -> bool:
    """Append a record: is the partition there yet?"""
    answer = _ask(asker, PRODUCE, 9, producing(make_batch([b"v"], keys=[b"k"]), topic))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code == 0


def _coordinated(asker: Asker, key: str, key_type: int, api: Api, version: int, values: Values) -> Any:
    """Find the coordinator, ask, and ask again while it is not ready yet."""
    answers: list[Any] = []

    def has_served() -> bool:
        found = _ask(asker, FIND_COORDINATOR, 3, {"key": key, "key_type": key_type})
        if found.error_code == 0:
            answers.append(_ask(asker, api, version, values))
        return bool(answers) and answers[-1].error_code == 0

    wait_until(has_served, f"{api.name} of {key}")
    return answers[-1]
