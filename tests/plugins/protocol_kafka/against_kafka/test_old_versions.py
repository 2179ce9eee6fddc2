"""Versions of requests that Apache Kafka 4 has no longer: answered as Apache Kafka 3.9.1 answers them.

Of records whole messages are compared; what follows them fills a size (docs/protocol.md, "Message sets").
Version 0 of OffsetCommit and OffsetFetch is left out: Kafka kept those offsets in ZooKeeper, and refuses them
without one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.deadlines import wait_until
from tests.peers import OLD_PROTOCOLS_KAFKA, running_kafka
from tidelog.kernel.records.batch import LOG_OVERHEAD_BYTES, parse_message
from tidelog.kernel.records.message_set import Message, encode_message, iter_messages
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api import Api

from .asking import TEXTS, Asker, message, plain

TOPIC: Final = "old-versions"
GROUP: Final = "old-versions-group"
NOW_MS: Final = 1_700_000_000_000
FAR_MS: Final = 2**62
ANY: Final = 1
ACL: Final = {"resource_type": 2, "resource_name": "t", "principal": "User:a", "host": "*"}
OPERATION: Final = {"operation": 3, "permission_type": 3}
ANYTHING: Final = {"resource_type_filter": ANY, "operation": ANY, "permission_type": ANY}

Question = tuple[Api, int, dict[str, Any]]


def messages(magic: int, *values: bytes | None) -> bytes:
    """Return a message set without compression."""
    out = bytearray()
    for offset, value in enumerate(values):
        encode_message(out, Message(offset, NOW_MS + offset if magic else -1, b"key", value), magic)
    return bytes(out)


def creating(version: int, name: str, **changes: Any) -> Question:
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1, **changes}
    return apis.CREATE_TOPICS, version, {"topics": [topic], "timeout_ms": 30_000}


def producing(version: int, records: bytes, partition: int = 0, **changes: Any) -> Question:
    data = {"name": TOPIC, "partition_data": [{"index": partition, "records": records}]}
    return apis.PRODUCE, version, {"acks": -1, "timeout_ms": 30_000, "topic_data": [data], **changes}


def fetching(version: int, offset: int, partition: int = 0, **changes: Any) -> Question:
    part = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **changes}
    topics = [{"topic": TOPIC, "partitions": [part]}]
    whole = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "topics": topics}
    return apis.FETCH, version, whole


def asking_for_offsets(timestamp: int, partition: int = 0, most: int = 1) -> Question:
    part = {"partition_index": partition, "timestamp": timestamp, "max_num_offsets": most}
    topics = [{"name": TOPIC, "partitions": [part]}]
    return apis.LIST_OFFSETS, 0, {"replica_id": -1, "topics": topics}


def committing(offset: int, partition: int = 0, metadata: str | None = "m", **changes: Any) -> Question:
    part = {
        "partition_index": partition,
        "committed_offset": offset,
        "commit_timestamp": -1,
        "committed_metadata": metadata,
    }
    topics = [{"name": TOPIC, "partitions": [part]}]
    of_group = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": topics, **changes}
    return apis.OFFSET_COMMIT, 1, of_group


def epochs(version: int, partition: int, epoch: int) -> Question:
    topics = [{"topic": TOPIC, "partitions": [{"partition": partition, "leader_epoch": epoch}]}]
    return apis.OFFSET_FOR_LEADER_EPOCH, version, {"topics": topics}


def describing(kind: int, name: str, *keys: str) -> Question:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
    return apis.DESCRIBE_CONFIGS, 0, {"resources": [resource]}


def marking(partition: int, epoch: int) -> Question:
    topics = [{"name": TOPIC, "partition_indexes": [partition]}]
    marker = {"producer_id": 778_000, "producer_epoch": 1, "coordinator_epoch": epoch, "topics": topics}
    return apis.WRITE_TXN_MARKERS, 0, {"markers": [marker]}


def sizing(topics: dict[str, list[int]] | None) -> Question:
    asked = topics and [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    return apis.DESCRIBE_LOG_DIRS, 0, {"topics": asked}


CREATION: Final[list[Question]] = [
    creating(0, TOPIC),
    creating(0, TOPIC),
    creating(0, "no such name"),
    creating(0, "old-versions-none", replication_factor=3),
    creating(0, "old-versions-none", configs=[{"name": "retention.ms", "value": "long"}]),
    creating(1, TOPIC),
    creating(1, "old-versions-none", num_partitions=0),
    creating(1, "old-versions-1", configs=[{"name": "retention.ms", "value": "1000000000"}]),
]
RECORDS: Final[list[Question]] = [
    producing(0, messages(0, b"a", b"b")),
    producing(1, messages(0, b"c")),
    producing(1, messages(1, None)),
    producing(2, messages(1, b"d", b"", None)),
    *(producing(version, messages(0, b"x")[:-1] + b"?") for version in (0, 1, 2)),
    *(producing(version, messages(0, b"x"), partition=9) for version in (0, 1, 2)),
    producing(2, messages(1, b"x"), acks=5),
    *(fetching(version, offset) for version in range(4) for offset in (0, 1, 6, 7, 8, -1)),
    *(fetching(version, 0, 9) for version in range(4)),
    *(asking_for_offsets(time, most=most) for time in (-1, -2, -3, 0, FAR_MS) for most in (0, 1, 5)),
    asking_for_offsets(-1, partition=9),
    *(epochs(version, 0, epoch) for version in (0, 1) for epoch in (0, 5, -1)),
    *(epochs(version, 9, 0) for version in (0, 1)),
    marking(0, 3),
    marking(0, 2),
    marking(9, 3),
]
DIRECTORIES: Final[list[Question]] = [
    sizing({TOPIC: [0, 1]}),
    sizing({TOPIC: [1, 9]}),
    sizing({TOPIC: []}),
    sizing({"old-versions-none": [0], "old-versions-1": [0]}),
    sizing({}),
    sizing(None),
]
OFFSETS: Final[list[Question]] = [
    committing(3),
    committing(3, partition=9),
    committing(3, metadata="m" * 5000),
    committing(3, member_id="m"),
    committing(3, generation_id_or_member_epoch=4, member_id="m"),
    committing(3, group_id=""),
    (
        apis.OFFSET_FETCH,
        1,
        {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0, 1, 9]}]},
    ),
]
ADMINISTRATION: Final[list[Question]] = [
    describing(2, "old-versions-1", "retention.ms", "cleanup.policy"),
    describing(2, "old-versions-none", "retention.ms"),
    (
        apis.ALTER_REPLICA_LOG_DIRS,
        0,
        {"dirs": [{"path": "/no/such/directory", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
    ),
    (apis.DESCRIBE_ACLS, 0, ANYTHING),
    (apis.CREATE_ACLS, 0, {"creations": [ACL | OPERATION]}),
    (apis.DELETE_ACLS, 0, {"filters": [ANYTHING]}),
    (apis.DELETE_TOPICS, 0, {"topic_names": ["old-versions-1", "old-versions-none"], "timeout_ms": 30_000}),
]


@pytest.fixture(scope="module")
def older_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """Apache Kafka 3.9.1."""
    with running_kafka(tmp_path_factory.mktemp("older"), version=OLD_PROTOCOLS_KAFKA) as server:
        asker = Asker(server.bootstrap)
        yield asker
        asker.close()


def answer(asker: Asker, question: Question) -> Any:
    """Return the answer to a request, with records as messages."""
    api, version, values = question
    return comparable(plain(asker.ask(api, version, message(api.request_class, values))))


def comparable(part: Any) -> Any:
    """Return an answer without texts and paths, topics of others, and `is_default`.

    Kafka leaves that false in version 0.
    """
    if isinstance(part, dict):
        ignored = TEXTS | {"is_default", "log_dir"}
        return {name: comparable(value) for name, value in part.items() if name not in ignored}
    if isinstance(part, list):
        return [comparable(item) for item in part if not is_topic_of_others(item)]
    return whole_messages(part) if isinstance(part, memoryview) else part


def is_topic_of_others(part: Any) -> bool:
    """Return whether this is a topic with its partitions, internal or of another test at this broker."""
    if not isinstance(part, dict) or "partitions" not in part:
        return False
    return not str(part.get("name", TOPIC)).startswith(TOPIC)


def whole_messages(records: memoryview) -> list[Message]:
    """Return the messages of an uncompressed set; the last one may be cut."""
    found: list[Message] = []
    position = 0
    while position + LOG_OVERHEAD_BYTES <= len(records):
        header = parse_message(records, position)
        content = records[position : position + header.size]
        if len(content) < header.size:
            break
        found += iter_messages(content, header)
        position += header.size
    return found


def has_coordinator(asker: Asker) -> bool:
    """Return whether the coordinator of the group is there."""
    found = answer(asker, (apis.FIND_COORDINATOR, 0, {"key": GROUP}))
    if found["error_code"] == 0:
        described = answer(asker, (apis.DESCRIBE_GROUPS, 0, {"groups": [GROUP]}))
        return all(group["error_code"] == 0 for group in described["groups"])
    return False


def leads(asker: Asker) -> bool:
    """Return whether the partitions of the topics have their leaders and logs, which Kafka creates later."""
    names = (TOPIC, "old-versions-1")
    described = answer(asker, (apis.METADATA, 0, {"topics": [{"name": name} for name in names]}))
    parts = [part for topic in described["topics"] for part in topic["partitions"]]
    sizes = answer(asker, sizing({name: [0, 1] for name in names}))
    logs = [part for result in sizes["results"] for topic in result["topics"] for part in topic["partitions"]]
    return len(parts) == len(logs) == 4 and all(part["error_code"] == 0 for part in parts)


@pytest.mark.long
def test_old_versions_are_answered_as_by_kafka_3_9(older_kafka: Asker, tidelog: Asker) -> None:
    wrong: list[str] = []

    def compare(questions: list[Question]) -> None:
        for question in questions:
            expected, found = answer(older_kafka, question), answer(tidelog, question)
            if found != expected:
                wrong.append(f"{question[0].name} {question[1:]}\n  Kafka   {expected}\n  tidelog {found}")

    compare(CREATION)
    for asker in (older_kafka, tidelog):
        wait_until(lambda asker=asker: leads(asker), "the topic's leaders")  # type: ignore[misc]
        wait_until(lambda asker=asker: has_coordinator(asker), "the coordinator")  # type: ignore[misc]
    compare(RECORDS)
    compare(DIRECTORIES)
    compare(OFFSETS)
    compare(ADMINISTRATION)
    assert not wrong, "\n".join(wrong)
    for version in range(4):
        fetched = answer(tidelog, fetching(version, 0, partition_max_bytes=1))
        (first,) = fetched["responses"][0]["partitions"][0]["records"]
        assert (first.offset, first.value) == (0, b"a")
