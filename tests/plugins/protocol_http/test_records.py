"""Records over HTTP: what is produced in each format is what is read in each."""

from __future__ import annotations

import base64
import json
from functools import partial

import pytest
import trio
import trio.testing
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from tests.plugins.protocol_http.http_client import HttpClient, answers_in, request_bytes
from tests.tables import for_each
from tidelog.kernel.records.batch import HEADER_BYTES, pack_batch, parse_header
from tidelog.kernel.records.compression import compress
from tidelog.kernel.records.record import iter_records
from tidelog.kernel.seams.partition import Isolation
from tidelog.kernel.seams.storage import region_bytes
from tidelog.kernel.testing import make_batch

RECORDS = "/topics/t/partitions/0/records"
BINARY = "application/vnd.kafka.binary.v2+json"
KAFKA_JSON = "application/vnd.kafka.json.v2+json"
NDJSON = "application/x-ndjson"
OCTETS = "application/octet-stream"


@pytest.fixture
async def topic(http: HttpClient) -> str:
    await http.create_topic("t", 3)
    return "t"


@pytest.fixture
async def two_batches(http: HttpClient, topic: str) -> None:
    await http.produce(topic, 10, 11)
    await http.produce(topic, 12, 13, 14)


def stored(http: HttpClient, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of the records in the log."""
    log = http.broker.replicas.log_of("t", partition)
    found: list[tuple[bytes | None, bytes | None]] = []
    while (offset := len(found)) < log.log_end_offset:
        data = b"".join(map(region_bytes, log.read(offset, 1, Isolation.READ_UNCOMMITTED).regions))
        header = parse_header(data)
        found += [(record.key, record.value) for record in iter_records(data, header)]
    return found


@for_each(
    ("content_type", "body", "expected"),
    [
        (
            KAFKA_JSON,
            b'{"records": [{"key": {"\\u00e9": 1}, "value": {"a": [1, 2.5, null]}}, {"value": "\\u00e9"}]}',
            [('{"é":1}'.encode(), b'{"a": [1, 2.5, null]}'), (None, b'"\\u00e9"')],
        ),
        (
            "application/json",
            b'{"records":[\n { "value" : { "value" : "}" } } ,{"value":1,"value": 2 },{ },{"value":[]\t}\r]}',
            [(None, b'{ "value" : "}" }'), (None, b"2"), (None, None), (None, b"[]")],
        ),
        ("application/json", b'{"records":[{"value":null}]}', [(None, None)]),
        (BINARY, b'{"records":[{"key":"AP8=","value":"eA=="}]}', [(b"\x00\xff", b"x")]),
        (NDJSON, b'{"a": 1}\n\n [2]\r\n3', [(None, b'{"a": 1}'), (None, b"[2]"), (None, b"3")]),
        (OCTETS, b"\x00\xff\n", [(None, b"\x00\xff\n")]),
        (OCTETS, b"", [(None, b"")]),
    ],
)
async def test_produce_stores_what_each_format_says(
    http: HttpClient,
    topic: str,
    content_type: str,
    body: bytes,
    expected: list[tuple[bytes | None, bytes | None]],
) -> None:
    before = len(stored(http))
    answer = await http.send("POST", "/topics/t/partitions/0", body, content_type)
    assert answer.status == 200, answer
    assert [(each["partition"], each["offset"]) for each in answer.json["offsets"]] == [
        (0, before + number) for number in range(len(expected))
    ]
    assert stored(http)[before:] == expected


async def test_produce_of_octets_takes_key_and_headers_of_the_record_from_the_request(
    http: HttpClient, topic: str
) -> None:
    target = "/topics/t/partitions/0"
    await http.send("POST", target, b"v", OCTETS, Kafka_Key="k", Kafka_Header_trace="1")
    (record,) = await http.get(RECORDS, Accept=BINARY)
    assert record["key"] == base64.b64encode(b"k").decode()
    assert record["headers"] == [{"name": "trace", "value": base64.b64encode(b"1").decode()}]


async def test_produce_chooses_partitions_as_java_clients_do_and_in_turn_without_a_key(
    http: HttpClient, topic: str
) -> None:
    body = {"records": [{"key": f"k{n}", "value": n} for n in range(20)]}
    keyed = (await http.send("POST", "/topics/t", body)).json["offsets"]
    # murmur2 of the JSON text of the key, quotes included.
    assert [each["partition"] for each in keyed] == [
        (kafkas_murmur2(b'"k%d"' % number) & 0x7FFFFFFF) % 3 for number in range(20)
    ]
    keyless = [
        {each["partition"] for each in (await http.send("POST", "/topics/t", KEYLESS)).json["offsets"]}
        for _ in range(3)
    ]
    assert sorted(map(len, keyless)) == [1, 1, 1]
    assert set.union(*keyless) == {0, 1, 2}


KEYLESS = {"records": [{"value": 1}, {"value": 2}]}


async def test_produce_keeps_timestamp_and_headers(http: HttpClient, topic: str) -> None:
    record = {
        "value": 1,
        "partition": 0,
        "timestamp": 1_700_000_000_000,
        "headers": [{"name": "a", "value": "AA=="}, {"name": "a", "value": None}],
    }
    assert (await http.send("POST", "/topics/t", {"records": [record]})).status == 200
    (found,) = await http.get(RECORDS)
    assert (found["timestamp"], found["headers"]) == (record["timestamp"], record["headers"])


@for_each(
    ("body", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b'{"records":[{"value":NaN}]}', "application/json", 400),
        (b'{"records":[{"value":1}]} x', "application/json", 400),
        (b'{"records":[{"value":1},]}', "application/json", 400),
        (b'{"records":[{"value":1} {"value":1}]}', "application/json", 400),
        (b'{"records" [1]}', "application/json", 400),
        (b"{1:2}", "application/json", 400),
        (b'{"records":[{"value":"\xff"}]}', "application/json", 400),
        (b'{"records":[{"value":' + b"[" * 100_000, "application/json", 400),
        (b'{"records":' + b"[" * 100_000, "application/json", 400),
        (b'{"records":[{"key":"' + b"\\ud800" + b'"}]}', "application/json", 422),
        (b'{"records":[{"value"}]}', "application/json", 400),
        (b'{"records":[{"value":1]}', "application/json", 400),
        (b'{"records":[{"value":1,}]}', "application/json", 400),
        (b'{"records":[{1:1}]}', "application/json", 400),
        (b'{"records":[{"value":1', "application/json", 400),
        (b'{"records":[{"value":' + b"9" * 5000 + b"}]}", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"{}", "application/json", 422),
        (b'{"records":[]}', "application/json", 422),
        (b'{"records":{}}', "application/json", 422),
        (b'{"records":[1]}', "application/json", 422),
        (b'{"records":[{"vlaue":1}]}', "application/json", 422),
        (b'{"records":[{"value":1,"partition":-1}]}', "application/json", 422),
        (b'{"records":[{"value":1,"partition":true}]}', "application/json", 422),
        (b'{"records":[{"value":1,"partition":99}]}', "application/json", 404),
        (b'{"records":[{"value":1,"timestamp":1e3}]}', "application/json", 422),
        (b'{"records":[{"value":1,"headers":[1]}]}', "application/json", 422),
        (b'{"records":[{"value":1,"headers":7}]}', "application/json", 422),
        (b'{"records":[{"value":"?"}]}', BINARY, 422),
        (b'{"records":[{"value":1}]}', BINARY, 422),
        (b'{"a":1}\n{', NDJSON, 400),
        (b"\n\n", NDJSON, 422),
        (b"x", "text/plain", 415),
        (b"x", "", 415),
    ],
)
async def test_produce_refuses_a_bad_body_and_appends_nothing(
    http: HttpClient, topic: str, body: bytes, content_type: str, status: int
) -> None:
    answer = await http.send("POST", "/topics/t", body, content_type)
    assert answer.status == status, answer
    assert answer.json["message"]
    assert [http.broker.replicas.log_of("t", number).log_end_offset for number in range(3)] == [0, 0, 0]
    # The connection is still good.
    assert (await http.send("GET", "/health")).status == 200


async def test_produce_splits_what_is_larger_than_max_message_bytes(http: HttpClient) -> None:
    body = {"topic_name": "t", "configs": [{"name": "max.message.bytes", "value": 10_000}]}
    assert (await http.send("POST", "/topics", body)).status == 201
    values = [f"{number}" + "x" * 3000 for number in range(10)]
    await http.produce("t", *values)
    assert [json.loads(value or b"") for _, value in stored(http)] == values
    answer = await http.send("POST", "/topics/t", {"records": [{"value": "y" * 20_000}, {"value": 1}]})
    refused, appended = answer.json["offsets"]
    assert (refused["error_code"], refused["offset"]) == (41390, None)
    assert (appended["error_code"], appended["offset"]) == (None, 10)
    answer = await http.send("POST", "/topics/t", {"records": [{"value": "y" * 20_000}]})
    assert (answer.status, answer.json["error_code"]) == (413, 41390)


async def test_produce_to_an_internal_or_unknown_topic_is_refused(http: HttpClient) -> None:
    await http.send("POST", "/groups/g/offsets", {"offsets": []})
    await http.broker.coordinator.prepare_groups()
    answer = await http.send("POST", "/topics/__consumer_offsets", KEYLESS)
    assert (answer.status, answer.json["error_code"]) == (422, 42291)
    answer = await http.send("POST", "/topics/none", KEYLESS)
    assert (answer.status, answer.json["error_code"]) == (404, 40401)
    answer = await http.send("POST", "/topics/none/partitions/0", KEYLESS)
    assert (answer.status, answer.json["error_code"]) == (404, 40401)


@for_each(
    ("accept", "expected"),
    [
        ("", ('"k"', 1, None)),
        ("text/html, application/json", ('"k"', 1, None)),
        (KAFKA_JSON, ('"k"', 1, None)),
        (BINARY, ("ImsiCg==", "MQ==", None)),
    ],
)
async def test_fetch_in_json(
    http: HttpClient, topic: str, accept: str, expected: tuple[object, object, object]
) -> None:
    log = http.broker.replicas.log_of("t", 0)
    appended = log.append_nowait(make_batch([b"1", b"\xff", None], keys=[b'"k"\n', None, b"{"]))
    first, second, third = await http.get(f"{RECORDS}?offset={appended.base_offset}", Accept=accept)
    key = first["key"] if accept == BINARY else json.dumps(first["key"])
    assert (key, first["value"], third["value"]) == expected
    if accept != BINARY:
        # What is no JSON is there all the same.
        assert (second["value_base64"], third["key_base64"]) == ("/w==", "ew==")


async def test_fetch_of_lines_has_a_record_a_line(http: HttpClient, topic: str) -> None:
    http.broker.replicas.log_of("t", 0).append_nowait(make_batch([b'{"a":\n1}', b"\r\n2"]))
    answer = await http.send("GET", RECORDS, Accept=NDJSON)
    assert answer.headers["content-type"] == NDJSON
    lines = answer.body.decode().split("\n")
    assert lines.pop() == ""
    assert [json.loads(line)["value"] for line in lines] == [{"a": 1}, 2]


async def test_fetch_of_octets_is_one_value(http: HttpClient, topic: str) -> None:
    http.broker.replicas.log_of("t", 0).append_nowait(make_batch([b"a", b"\x00b"], keys=[None, b"k"]))
    answer = await http.send("GET", f"{RECORDS}?offset=1", Accept=OCTETS)
    assert (answer.body, answer.headers["kafka-offset"], answer.headers["kafka-key"]) == (
        b"\x00b",
        "1",
        "aw==",
    )
    answer = await http.send("GET", f"{RECORDS}?offset=2", Accept=OCTETS)
    assert (answer.status, answer.json["error_code"]) == (404, 40494)
    assert (await http.send("GET", RECORDS, Accept="image/png")).status == 406


@for_each(
    ("query", "offsets"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("?offset=earliest", [0, 1, 2, 3, 4]),
        ("?offset=latest", []),
        ("?offset=3", [3, 4]),
        ("?offset=5", []),
        ("?max_records=2", [0, 1]),
        ("?max_bytes=1", [0]),
        ("?offset=2&max_records=1&max_bytes=100", [2]),
    ],
)
async def test_fetch_reads_from_an_offset_within_limits(
    http: HttpClient, two_batches: None, query: str, offsets: list[int]
) -> None:
    assert [record["offset"] for record in await http.get(f"{RECORDS}{query}")] == offsets


@for_each(
    ("target", "status"),
    [
        (f"{RECORDS}?offset=6", 416),
        (f"{RECORDS}?offset=-1", 400),
        (f"{RECORDS}?offset=99999999999999999999", 400),
        (f"{RECORDS}?max_bytes=0", 400),
        (f"{RECORDS}?timeout=30001", 400),
        (f"{RECORDS}?offset=1&offset=2", 400),
        (f"{RECORDS}?max_records=%C3%A9", 400),
        (f"{RECORDS}?max_records=%ff", 400),
        ("/topics/t/partitions/3/records", 404),
        ("/topics/t/partitions/x/records", 404),
        ("/topics/none/partitions/0/records", 404),
    ],
)
async def test_fetch_refuses(http: HttpClient, topic: str, target: str, status: int) -> None:
    answer = await http.send("GET", target)
    assert (answer.status, bool(answer.json["message"])) == (status, True), answer


async def test_fetch_waits_for_the_first_record_up_to_its_timeout(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    started = trio.current_time()
    assert await http.get(f"{RECORDS}?timeout=2000") == []
    assert trio.current_time() - started == pytest.approx(2)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(http.driver.feed, request_bytes("GET", f"{RECORDS}?timeout=30000")))
        await trio.testing.wait_all_tasks_blocked()
        assert not http.driver.sent
        await http.another().produce("t", "there")
    (answer,) = answers_in(http.driver.take_sent())
    assert [record["value"] for record in answer.json] == ["there"]


async def test_fetch_of_committed_records_leaves_out_aborted_ones(http: HttpClient, topic: str) -> None:
    log = http.broker.replicas.log_of("t", 0)
    for producer_id, commit in ((7, False), (8, True)):
        batch = make_batch(
            [b"%d" % producer_id],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append_nowait(batch, in_transaction=True)
        log.append_marker(producer_id, 0, 0, commit=commit)
    assert [each["value"] for each in await http.get(RECORDS)] == [7, 8]
    committed = await http.get(f"{RECORDS}?isolation_level=read_committed")
    assert [each["value"] for each in committed] == [8]


async def test_fetch_of_compressed_batches_stops_at_its_limit(http: HttpClient, topic: str) -> None:
    memory = http.broker.topics.unpacking.memory
    free_bytes = memory.free_bytes
    values = [b"%d" % (10**6 + number) for number in range(1000)]
    batch = make_batch(values)
    header = parse_header(batch)
    packed = pack_batch(header._replace(attributes=1), compress(1, memoryview(batch)[HEADER_BYTES:]))
    http.broker.replicas.log_of("t", 0).append_nowait(packed)
    records = await http.get(f"{RECORDS}?offset=500&max_records=3")
    assert [(each["offset"], each["value"]) for each in records] == [
        (500 + number, 10**6 + 500 + number) for number in range(3)
    ]
    assert memory.free_bytes == free_bytes
