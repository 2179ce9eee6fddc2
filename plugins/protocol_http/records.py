"""Producing records, reading them, and following a topic."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.metadata.acls import CLUSTER_NAME
from tidelog.kernel.pace import Pace, run_in_steps
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.plugins.protocol_http import json_text
from tidelog.plugins.protocol_http.events import RecordEvents, ServerSentEvents, WebSocketMessages
from tidelog.plugins.protocol_http.formats import (
    CONTENTS_OF,
    EMBEDDED_OF,
    EVENT_STREAM,
    NDJSON,
    NO_PARTITION,
    OCTETS,
    BodyRecord,
    FetchedRecord,
    accepted,
    json_array,
    record_at,
    record_text,
)
from tidelog.plugins.protocol_http.messages import JSON, HttpProblem, HttpResponse, WebSocketAccepted
from tidelog.plugins.protocol_http.problems import problem_of
from tidelog.plugins.protocol_http.producing import NO_TIMESTAMP, Appends
from tidelog.plugins.protocol_http.reading import Partition, Positions

if TYPE_CHECKING:
    from tidelog.kernel.topics import Topic
    from tidelog.plugins.protocol_http.call import Call
    from tidelog.plugins.protocol_http.formats import Embedded

RECORD_TYPES: Final = (*EMBEDDED_OF, NDJSON)
LINES_PER_BATCH: Final = 500
"""Lines that are appended together."""
HEADER_PREFIX: Final = "kafka-header-"
"""Of the header of a request whose body is a value: what follows is the name of a header of the record."""


async def produce(call: Call) -> HttpResponse:
    """Append records to a topic, or to the partition in the path."""
    name = call.path["topic"]
    await call.need_on_topic(AclOperation.WRITE, name)
    topic = await _topic(call, name)
    partition = call.partition() if "partition" in call.path else NO_PARTITION
    appends = Appends(call.broker, call.client, topic, call.broker.clock(), next(call.service.turns))
    media_type = call.request.media_type
    if media_type == NDJSON:
        await _append_lines(call, appends, partition)
    elif media_type == OCTETS:
        await appends.append([_only_record(call, partition)])
    else:
        await appends.append(await _records(call, EMBEDDED_OF[media_type or JSON], partition))
    call.records_received = len(appends.outcomes)
    return _outcome(appends.outcomes)


async def _topic(call: Call, name: str) -> Topic:
    broker = call.broker
    topic = broker.topics.find(name)
    if topic is None and broker.config.text("auto.create.topics.enable") == "true":
        if not await call.allows(ResourceType.CLUSTER, AclOperation.CREATE, CLUSTER_NAME, audited=False):
            await call.need_on_topic(AclOperation.CREATE, name)
        return await broker.topics.ensure(name)
    return broker.topics.get(name) if topic is None else topic


async def _records(call: Call, embedded: Embedded, partition: int) -> list[BodyRecord]:
    read = partial(record_at, CONTENTS_OF[embedded])
    body = await run_in_steps(json_text.decode_in_steps(call.request.body, "records", read))
    records: object = body.get("records")
    if not json_text.is_array(records) or not records:
        raise HttpProblem(422, "records is not an array of at least one record")
    return records if partition == NO_PARTITION else [_placed(record, partition) for record in records]


def _placed(record: BodyRecord, partition: int) -> BodyRecord:
    if record.partition not in (NO_PARTITION, partition):
        raise HttpProblem(422, f"a record names partition {record.partition}, and the path {partition}")
    return record._replace(partition=partition)


async def _append_lines(call: Call, appends: Appends, partition: int) -> None:
    """Append each line as a value of JSON, as it is; all lines are checked before the first is appended."""
    pace = Pace()
    records: list[BodyRecord] = []
    for number, line in enumerate(call.request.body.split(b"\n"), 1):
        value = line.strip()
        if value:
            json_text.decode(value, f"line {number}")
            records.append(BodyRecord(partition, None, value, NO_TIMESTAMP))
        if number % json_text.ELEMENTS_PER_STEP == 0:
            await pace.turn()
    if not records:
        raise HttpProblem(422, "the body has no line")
    for start in range(0, len(records), LINES_PER_BATCH):
        await appends.append(records[start : start + LINES_PER_BATCH])
        await pace.turn()


def _only_record(call: Call, partition: int) -> BodyRecord:
    """Return the record whose value is the body; key and headers are in headers of the request."""
    headers = call.request.headers
    key = headers.get("kafka-key")
    of_record = tuple(
        (name.removeprefix(HEADER_PREFIX).encode(), value.encode())
        for name, value in headers.items()
        if name.startswith(HEADER_PREFIX)
    )
    encoded = None if key is None else key.encode()
    return BodyRecord(partition, encoded, call.request.body, NO_TIMESTAMP, of_record)


def _outcome(outcomes: Sequence[tuple[int, int | BrokerError]]) -> HttpResponse:
    """Return where each record is, or why it is not; with an error for all, that error."""
    first = outcomes[0][1]
    if isinstance(first, BrokerError) and all(isinstance(each, BrokerError) for _, each in outcomes):
        raise first
    texts: list[str] = []
    for partition, outcome in outcomes:
        if isinstance(outcome, BrokerError):
            problem = problem_of(outcome)
            code, text, offset = str(problem.code), json_text.encode_text(str(problem)[:1000]), "null"
        else:
            code, text, offset = "null", "null", str(outcome)
        texts.append(f'{{"partition":{partition},"offset":{offset},"error_code":{code},"error":{text}}}')
    joined = ",".join(texts)
    body = f'{{"offsets":[{joined}],"key_schema_id":null,"value_schema_id":null}}'
    return HttpResponse(200, body.encode())


async def fetch(call: Call) -> HttpResponse:
    """Return records of one partition from an offset on; wait for the first one if the client does."""
    name = call.path["topic"]
    await call.need_on_topic(AclOperation.READ, name)
    log, partition, query = call.log(), call.partition(), call.query
    offset = _offset(
        query.get("offset", "earliest"), log.log_start_offset, log.readable_end(call.limits()[2])
    )
    media_type = accepted(call.request.headers.get("accept", ""), (*RECORD_TYPES, OCTETS))
    positions = Positions(call.broker, call.client, {(name, partition): offset})
    limits = call.limits()
    if media_type == OCTETS:
        limits = limits._replace(max_records=1)
    found = await positions.read(limits, query.get("timeout", 0) / 1000)
    return await records_response(found, media_type)


def _offset(asked: str | int, first: int, end: int) -> int:
    if isinstance(asked, int):
        return asked
    return first if asked == "earliest" else end


async def records_response(found: Sequence[FetchedRecord], media_type: str) -> HttpResponse:
    """Return records in the form of a media type."""
    if media_type == OCTETS:
        return _only_value(found)
    embedded, pace = EMBEDDED_OF.get(media_type, "json"), Pace()
    texts: list[str] = []
    for record in found:
        texts.append(record_text(record, embedded))
        await pace.turn()
    if media_type == NDJSON:
        return HttpResponse(200, "".join(f"{text}\n" for text in texts).encode(), NDJSON)
    return HttpResponse(200, json_array(texts), media_type)


def _only_value(found: Sequence[FetchedRecord]) -> HttpResponse:
    """Return the value of the first record; where it is, and its key as base64, are in headers."""
    if not found:
        raise HttpProblem(404, "no record is there yet", 40494)
    topic, partition, record = found[0]
    headers = [
        ("Kafka-Topic", topic),
        ("Kafka-Partition", str(partition)),
        ("Kafka-Offset", str(record.offset)),
        ("Kafka-Timestamp", str(record.timestamp)),
    ]
    if record.key is not None:
        headers.append(("Kafka-Key", base64.b64encode(record.key).decode()))
    return HttpResponse(200, record.value or b"", OCTETS, headers)


async def follow(call: Call) -> HttpResponse | WebSocketAccepted:
    """Send the records of a topic as they come, as server-sent events or over a WebSocket."""
    name = call.path["topic"]
    await call.need_on_topic(AclOperation.READ, name)
    headers = call.request.headers
    positions = Positions(call.broker, call.client, _start(call, headers.get("last-event-id", "")))
    embedded: Embedded = call.query.get("format", "json")
    events = RecordEvents(positions, call.limits(), embedded)
    if headers.get("upgrade", "").lower() == "websocket":
        return WebSocketAccepted(WebSocketMessages(events))
    accepted(headers.get("accept", ""), (EVENT_STREAM,))
    return HttpResponse(200, content_type=EVENT_STREAM, events=ServerSentEvents(events))


def _start(call: Call, last_event_id: str) -> Mapping[Partition, int]:
    """Return where following starts: at `from`, or behind the last event that a browser got before."""
    topic, isolation = call.topic(), call.limits().isolation
    asked: Any = call.query.get("from", "latest")
    numbers = [call.query["partition"]] if "partition" in call.query else range(len(topic.partitions))
    if isinstance(asked, int) and len(numbers) != 1:
        raise HttpProblem(400, "an offset is of one partition: name it by the parameter partition")
    positions: dict[Partition, int] = {}
    for number in numbers:
        log = call.broker.replicas.log_of(topic.name, number)
        positions[topic.name, number] = _offset(asked, log.log_start_offset, log.readable_end(isolation))
    # `partition:offset` of the next record of each partition, as the id of each event has it.
    for part in last_event_id.split(","):
        number_text, _, offset = part.partition(":")
        if number_text.isdecimal() and offset.isdecimal() and len(offset) < 20:
            known = (topic.name, int(number_text[:10]))
            if known in positions:
                positions[known] = int(offset)
    return positions
