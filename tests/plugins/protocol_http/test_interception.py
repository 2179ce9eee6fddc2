"""Interceptors see what is produced and fetched over HTTP as they do over Kafka's protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from tests.plugins.protocol_http.http_client import BROKER, HttpClient
from tests.plugins.protocol_kafka.interception.scripted import intercepting_broker
from tidelog.kernel.errors import PolicyViolation
from tidelog.kernel.records.record import Record
from tidelog.kernel.seams.interceptors import BatchInfo, FetchInfo, Interceptor, RefusedRecord, TopicCreation
from tidelog.kernel.seams.partition import AppendResult

RECORDS = "/topics/t/partitions/0/records"


class Masking(Interceptor):
    """Hides 1, and masks all others, unless the client is the auditor."""

    def before_fetch(self, fetch: FetchInfo) -> bool:
        if fetch.client_id == "nosy":
            raise PolicyViolation("not for you")
        return fetch.client_id != "auditor"

    def show(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | None]:
        for record in records:
            yield None if record.value == b"1" else attrs.evolve(record, value=b'"***"')


async def test_fetched_records_are_hidden_masked_and_refused() -> None:
    async with intercepting_broker(BROKER, it=Masking()) as broker:
        http = HttpClient(broker)
        await http.create_topic("t")
        await http.produce("t", 1, 2)
        await http.produce("t", 1)
        await http.produce("t", 3)
        found = [(record["offset"], record["value"]) for record in await http.get(RECORDS)]
        assert found == [(1, "***"), (3, "***")]
        assert len(await http.get(RECORDS, User_Agent="auditor")) == 4
        answer = await http.send("GET", RECORDS, User_Agent="nosy")
        assert (answer.status, answer.json["message"]) == (403, "not for you")
        await http.send(
            "POST", "/consumers/g", {"name": "i", "auto.offset.reset": "earliest", "format": "json"}
        )
        await http.send("POST", "/consumers/g/instances/i/subscription", {"topics": ["t"]})
        records = await http.get("/consumers/g/instances/i/records")
        assert [(record["offset"], record["value"]) for record in records] == found


class Strict(Interceptor):
    """Refuses large batches, routes those of 9, doubles numbers, and refuses what is none."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []

    def before_append(self, batch: BatchInfo) -> str | None:
        if batch.header.record_count > 5:
            raise PolicyViolation("too many at once")
        return "u" if batch.client_id == "router" else None

    def rewrite(self, batch: BatchInfo, records: Iterator[Record]) -> Iterable[Record | RefusedRecord]:
        for record in records:
            text = (record.value or b"").decode()
            if text.isdecimal():
                yield attrs.evolve(record, value=b"%d" % (2 * int(text)))
            else:
                yield RefusedRecord(f"{text} is no number")

    def after_append(self, batch: BatchInfo, result: AppendResult) -> None:
        self.heard.append((batch.topic, result.base_offset))

    def before_change(self, change: object) -> None:
        if isinstance(change, TopicCreation) and change.topic == "forbidden":
            raise PolicyViolation("no such topics")


async def test_produced_records_are_refused_rewritten_and_routed() -> None:
    strict = Strict()
    async with intercepting_broker(BROKER, it=strict) as broker:
        http = HttpClient(broker)
        await http.create_topic("t")
        await http.create_topic("u")
        await http.produce("t", 1, 2)
        assert [record["value"] for record in await http.get(RECORDS)] == [2, 4]
        answer = await http.send("POST", "/topics/t", {"records": [{"value": "x"}]})
        assert (answer.status, answer.json["error_code"]) == (422, 42296)
        answer = await http.send("POST", "/topics/t", {"records": [{"value": 1}] * 6})
        assert (answer.status, answer.json["message"]) == (403, "too many at once")
        await http.send("POST", "/topics/t", {"records": [{"value": 9}]}, User_Agent="router")
        assert [record["value"] for record in await http.get("/topics/u/partitions/0/records")] == [9]
        assert strict.heard == [("t", 0), ("u", 0)]
        assert broker.replicas.log_of("t", 0).log_end_offset == 2
        answer = await http.send("POST", "/topics", {"topic_name": "forbidden"})
        assert (answer.status, answer.json["message"]) == (403, "no such topics")
