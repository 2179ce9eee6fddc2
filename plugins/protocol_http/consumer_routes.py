"""The requests about consumer instances."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import trio

from tidelog.kernel.errors import InvalidGroupId
from tidelog.kernel.seams.requests import AclOperation
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.consumers import NO_SUBSCRIPTION, ConsumerInstance
from tidelog.plugins.protocol_http.formats import EMBEDDED_OF, KAFKA_BINARY, KAFKA_JSON, NDJSON, accepted
from tidelog.plugins.protocol_http.groups import offsets_in, partition_in, to_commit
from tidelog.plugins.protocol_http.messages import HttpProblem, HttpResponse
from tidelog.plugins.protocol_http.reading import Partition
from tidelog.plugins.protocol_http.records import RECORD_TYPES, records_response

if TYPE_CHECKING:
    from tidelog.plugins.protocol_http.call import Call

MAX_NAME: Final = 249
MAX_WAIT_MS: Final = 30_000
"""The longest wait of one poll: proxies end requests that take longer."""
DEFAULT_WAIT_MS: Final = 1000
MAX_TOPICS: Final = 1000
SETTINGS: Final = frozenset(
    (
        "name",
        "format",
        "auto.offset.reset",
        "auto.commit.enable",
        "fetch.min.bytes",
        "consumer.request.timeout.ms",
    )
)


async def create(call: Call) -> HttpResponse:
    """Create an instance."""
    group_id = call.path["group"]
    await call.need_on_group(AclOperation.READ, group_id)
    if len(group_id) > MAX_NAME:
        raise InvalidGroupId(f"a group id has at most {MAX_NAME} characters here")
    body = json_text.decode_object(call.request.body)
    if not body.keys() <= SETTINGS:
        raise HttpProblem(422, f"an instance has no setting {min(body.keys() - SETTINGS)[:100]!r}")
    name = body.get("name") or f"http-{uuid.uuid4()}"
    if not isinstance(name, str) or len(name) > MAX_NAME or "/" in name:
        raise HttpProblem(422, f"a name is a string of at most {MAX_NAME} characters without a /")
    embedded, reset = body.get("format", "binary"), body.get("auto.offset.reset", "latest")
    if embedded not in ("json", "binary"):
        raise HttpProblem(422, "format is json or binary")
    if reset not in ("earliest", "latest"):
        raise HttpProblem(422, "auto.offset.reset is earliest or latest")
    call.service.consumers.add(
        lambda: ConsumerInstance(
            call.broker,
            group_id,
            name,
            call.client,
            embedded=embedded,
            reset=reset,
            auto_commit=_flag(body.get("auto.commit.enable", True)),
            wait_seconds=_wait_ms(body.get("consumer.request.timeout.ms", DEFAULT_WAIT_MS)) / 1000,
        )
    )
    host = call.request.headers.get("host", "")
    path = "/".join(quote(part, safe="") for part in ("consumers", group_id, "instances", name))
    uri = f"{call.service.scheme_of(call.peer)}://{host}/{path}"
    return HttpResponse(200, json_text.encode({"instance_id": name, "base_uri": uri}))


def _flag(value: object) -> bool:
    if value in (True, "true"):
        return True
    if value in (False, "false"):
        return False
    raise HttpProblem(422, "auto.commit.enable is true or false")


def _wait_ms(value: object) -> int:
    text = str(value)
    if text.isdecimal() and len(text) < 10 and int(text) <= MAX_WAIT_MS:
        return int(text)
    raise HttpProblem(422, f"consumer.request.timeout.ms is a number from 0 to {MAX_WAIT_MS}")


def _instance(call: Call) -> ConsumerInstance:
    return call.service.consumers.get(call.path["group"], call.path["instance"], call.peer.principal)


async def delete(call: Call) -> HttpResponse:
    """Delete an instance."""
    await call.service.consumers.remove(_instance(call))
    return HttpResponse(204)


async def subscribe(call: Call) -> HttpResponse:
    """Subscribe to topics, or to those whose names match a pattern of RE2."""
    instance, body = _instance(call), json_text.decode_object(call.request.body)
    topics, pattern = body.get("topics", []), body.get("topic_pattern")
    if not json_text.is_array(topics) or len(topics) > MAX_TOPICS:
        raise HttpProblem(422, f"topics is an array of at most {MAX_TOPICS} strings")
    if not all(isinstance(topic, str) for topic in topics) or not isinstance(pattern, str | None):
        raise HttpProblem(422, "topics and the topic_pattern are strings")
    if bool(topics) == bool(pattern):
        raise HttpProblem(422, "a subscription has either topics or a topic_pattern")
    for topic in topics:
        await call.need_on_topic(AclOperation.READ, topic)
    async with instance.lock:
        await instance.subscribe(topics, pattern)
    return HttpResponse(204)


async def subscription(call: Call) -> HttpResponse:
    """Return the topics of the subscription."""
    instance = _instance(call)
    body: dict[str, object] = {"topics": sorted(instance.topics)}
    if instance.pattern is not None:
        body["topic_pattern"] = instance.pattern
    return HttpResponse(200, json_text.encode(body))


async def unsubscribe(call: Call) -> HttpResponse:
    """End the subscription."""
    instance = _instance(call)
    async with instance.lock:
        await instance.leave()
    return HttpResponse(204)


async def assign(call: Call) -> HttpResponse:
    """Assign partitions to an instance, which is no member of its group then."""
    instance = _instance(call)
    partitions = await _partitions(call)
    async with instance.lock:
        await instance.assign(partitions)
    return HttpResponse(204)


async def assignments(call: Call) -> HttpResponse:
    """Return the partitions of an instance."""
    found = [{"topic": topic, "partition": partition} for topic, partition in _instance(call).positions.next]
    return HttpResponse(200, json_text.encode({"partitions": found}))


async def _partitions(call: Call) -> list[Partition]:
    elements = json_text.decode_object(call.request.body).get("partitions")
    if not json_text.is_array(elements) or len(elements) > MAX_TOPICS:
        raise HttpProblem(422, f"partitions is an array of at most {MAX_TOPICS} objects")
    found = [partition_in(element) for element in elements]
    for topic in {topic for topic, _ in found}:
        await call.need_on_topic(AclOperation.READ, topic)
    to_commit(call, dict.fromkeys(found, 0))
    return found


async def seek(call: Call) -> HttpResponse:
    """Read on from these offsets."""
    return await _seek(call, offsets_in(json_text.decode_object(call.request.body)))


async def seek_to_beginning(call: Call) -> HttpResponse:
    """Read on from the first record of these partitions."""
    logs = call.broker.replicas
    return await _seek(call, {each: logs.log_of(*each).log_start_offset for each in await _partitions(call)})


async def seek_to_end(call: Call) -> HttpResponse:
    """Read on from the end of these partitions."""
    logs = call.broker.replicas
    return await _seek(call, {each: logs.log_of(*each).high_watermark for each in await _partitions(call)})


async def _seek(call: Call, offsets: Mapping[Partition, int]) -> HttpResponse:
    instance = _instance(call)
    async with instance.lock:
        missing = offsets.keys() - instance.positions.next.keys()
        if missing:
            topic, partition = min(missing)
            raise HttpProblem(409, f"{topic}-{partition} is not assigned to the instance", NO_SUBSCRIPTION)
        instance.positions.next.update(offsets)
    return HttpResponse(204)


async def poll(call: Call) -> HttpResponse:
    """Return the next records; wait for them up to `timeout`, or `consumer.request.timeout.ms`."""
    instance = _instance(call)
    own = KAFKA_JSON if instance.embedded == "json" else KAFKA_BINARY
    media_type = accepted(call.request.headers.get("accept", ""), (own, *RECORD_TYPES))
    # JSON without the name of a format means that of the instance.
    embedded = EMBEDDED_OF.get(media_type)
    if embedded not in (None, instance.embedded) and media_type in (KAFKA_JSON, KAFKA_BINARY):
        raise HttpProblem(406, f"the format of the instance is {instance.embedded}", 40601)
    wait_s = call.query["timeout"] / 1000 if "timeout" in call.query else instance.wait_seconds
    async with instance.lock:
        for topic in {topic for topic, _ in instance.positions.next}:
            await call.need_on_topic(AclOperation.READ, topic)
        await instance.commit_automatically()
        found = await instance.positions.read(call.limits(), wait_s)
        response = await records_response(found, media_type if media_type == NDJSON else own)
        # Last, without a checkpoint behind it: a client that left while it waited has got nothing.
        instance.positions.advance(found)
        instance.delivered({(record.topic, record.partition) for record in found})
    instance.used_at = trio.current_time()
    return response


async def commit(call: Call) -> HttpResponse:
    """Commit the offsets of the body, or all that was handed out."""
    instance = _instance(call)
    await call.need_on_group(AclOperation.READ, instance.group_id)
    body = json_text.decode_object(call.request.body)
    async with instance.lock:
        if body:
            # As in the proxies: an offset is that of the last record that was processed.
            offsets = {each: offset + 1 for each, offset in offsets_in(body).items()}
            for topic in {topic for topic, _ in offsets}:
                await call.need_on_topic(AclOperation.READ, topic)
            to_commit(call, offsets)
        else:
            offsets = dict(instance.handed_out())
        if offsets:
            await instance.commit(offsets)
    return HttpResponse(204)


async def committed(call: Call) -> HttpResponse:
    """Return what the group has committed of the partitions of the instance."""
    instance = _instance(call)
    await call.need_on_group(AclOperation.DESCRIBE, instance.group_id)
    offsets = [
        {"topic": topic, "partition": partition, "offset": offset, "metadata": ""}
        for (topic, partition), offset in instance.committed(instance.positions.next).items()
    ]
    return HttpResponse(200, json_text.encode({"offsets": offsets}))
