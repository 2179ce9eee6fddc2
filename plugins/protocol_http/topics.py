"""Topics and their partitions: listing, describing, creating and deleting them, and their offsets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import BrokerError, TopicDeletionDisabled
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.messages import HttpProblem, HttpResponse

if TYPE_CHECKING:
    from tidelog.kernel.replica import Partition
    from tidelog.plugins.protocol_http.call import Call

DEFAULT: Final = -1
MAX_CONFIGS: Final = 200
"""Most settings of one topic; there are fewer than a hundred keys."""
FIELDS: Final = frozenset(("topic_name", "partitions_count", "replication_factor", "configs"))
NOT_FOUND: Final = {"offset": None, "timestamp": None}


async def list_brokers(call: Call) -> HttpResponse:
    """Return the ids of the brokers."""
    brokers = call.broker.cluster.brokers(call.peer.listener_name)
    return HttpResponse(200, json_text.encode({"brokers": [broker.node_id for broker in brokers]}))


async def list_topics(call: Call) -> HttpResponse:
    """Return the names of the topics that the client may describe."""
    names: list[str] = []
    pace = Pace()
    for topic in call.broker.topics:
        if await call.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic.name, audited=False):
            names.append(topic.name)
        await pace.turn()
    return HttpResponse(200, json_text.encode(sorted(names)))


async def describe_topic(call: Call) -> HttpResponse:
    """Return a topic: what is set for it, and its partitions."""
    await call.need_on_topic(AclOperation.DESCRIBE, call.path["topic"])
    topic = call.topic()
    body: dict[str, Any] = {"name": topic.name, "topic_id": str(topic.topic_id)}
    if await call.allows(ResourceType.TOPIC, AclOperation.DESCRIBE_CONFIGS, topic.name, audited=False):
        body["configs"] = dict(topic.overrides)
    partitions: list[dict[str, Any]] = []
    pace = Pace()
    for number, partition in enumerate(topic.partitions):
        partitions.append(_partition(number, partition))
        await pace.turn()
    return HttpResponse(200, json_text.encode({**body, "partitions": partitions}))


async def list_partitions(call: Call) -> HttpResponse:
    """Return the partitions of a topic."""
    await call.need_on_topic(AclOperation.DESCRIBE, call.path["topic"])
    partitions: list[dict[str, Any]] = []
    pace = Pace()
    for number, partition in enumerate(call.topic().partitions):
        partitions.append(_partition(number, partition))
        await pace.turn()
    return HttpResponse(200, json_text.encode(partitions))


async def describe_partition(call: Call) -> HttpResponse:
    """Return one partition."""
    await call.need_on_topic(AclOperation.DESCRIBE, call.path["topic"])
    number = call.partition()
    return HttpResponse(200, json_text.encode(_partition(number, call.topic().partitions[number])))


def _partition(number: int, partition: Partition) -> dict[str, Any]:
    leader = partition.leader_id
    replicas = [{"broker": each, "leader": each == leader, "in_sync": True} for each in partition.isr]
    return {"partition": number, "leader": leader, "replicas": replicas}


async def create_topic(call: Call) -> HttpResponse:
    """Create a topic; the names of the members are those of version 3 of Kafka's REST proxy."""
    wanted = _spec(json_text.decode_object(call.request.body))
    name = wanted.name
    may_create = await call.allows(ResourceType.CLUSTER, AclOperation.CREATE, CLUSTER_NAME, audited=False)
    if not may_create:
        await call.need_on_topic(AclOperation.CREATE, name)
    (created,) = await call.broker.controller.create_topics([wanted])
    if isinstance(created, BrokerError):
        raise created
    body = {
        "topic_name": name,
        "topic_id": str(created.topic_id),
        "partitions_count": len(created.partitions),
        "replication_factor": 1,
    }
    return HttpResponse(201, json_text.encode(body))


def _spec(body: dict[str, Any]) -> TopicSpec:
    if not body.keys() <= FIELDS:
        raise HttpProblem(422, f"there is no member {min(body.keys() - FIELDS)[:100]!r}")
    name = body.get("topic_name")
    if not isinstance(name, str):
        raise HttpProblem(422, "topic_name is missing, or no string")
    configs = body.get("configs", [])
    if not json_text.is_array(configs) or len(configs) > MAX_CONFIGS:
        raise HttpProblem(422, f"configs is an array of at most {MAX_CONFIGS} objects with name and value")
    return TopicSpec(
        name,
        _count(body, "partitions_count"),
        _count(body, "replication_factor"),
        dict(map(_setting, configs)),
    )


def _count(body: dict[str, Any], name: str) -> int:
    value = body.get(name, DEFAULT)
    if type(value) is not int or not -1 <= value < 2**31:
        raise HttpProblem(422, f"{name} is a number")
    return value


def _setting(entry: Any) -> tuple[str, str]:
    found = entry if json_text.is_object(entry) else {}
    name, value = found.get("name"), found.get("value")
    if not isinstance(name, str) or not isinstance(value, str | int | float):
        raise HttpProblem(422, "an entry of configs has a name, a string, and a value")
    if isinstance(value, bool):
        value = str(value).lower()
    return name, str(value)


async def delete_topic(call: Call) -> HttpResponse:
    """Delete a topic."""
    name = call.path["topic"]
    await call.need_on_topic(AclOperation.DELETE, name)
    if call.broker.config.text("delete.topic.enable") == "false":
        raise TopicDeletionDisabled("delete.topic.enable is false on this broker")
    (error,) = await call.broker.controller.delete_topics([name])
    if error is not None:
        raise error
    return HttpResponse(204)


async def offsets(call: Call) -> HttpResponse:
    """Return the first offset of a partition and the end; with `timestamp` the first record from then on."""
    await call.need_on_topic(AclOperation.DESCRIBE, call.path["topic"])
    log = call.log()
    if "timestamp" not in call.query:
        ends = {"beginning_offset": log.log_start_offset, "end_offset": log.high_watermark}
        return HttpResponse(200, json_text.encode(ends))
    found = await log.unpacking.read(partial(log.offset_for_timestamp, call.query["timestamp"]))
    # It is found in the log as it is; the client may not see what is not committed.
    if found is None or found.offset >= log.readable_end(Isolation.READ_UNCOMMITTED):
        return HttpResponse(200, json_text.encode(NOT_FOUND))
    return HttpResponse(200, json_text.encode({"offset": found.offset, "timestamp": found.timestamp_ms}))
