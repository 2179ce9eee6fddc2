"""One HTTP connection: framing at every boundary, limits, and requests that try to be two."""

from __future__ import annotations

from functools import partial

import attrs
import pytest
import trio
import trio.testing

from tests.plugins.protocol_http.http_client import PEER, HttpClient, answers_in, request_bytes
from tests.tables import for_each
from tidelog.kernel import Broker
from tidelog.kernel.errors import UnknownTopicOrPartition
from tidelog.kernel.seams.requests import Phase, Request, RequestStage
from tidelog.kernel.seams.wire import ConnectionFinished
from tidelog.kernel.testing.wire import GrantedMemory
from tidelog.plugins.protocol_http.connection import MAX_HEAD_BYTES, MAX_HEADERS
from tidelog.plugins.protocol_http.service import HttpService

HEALTH = request_bytes("GET", "/health")
HOST = b"Host: broker\r\n"


async def test_pipelined_requests_are_answered_in_order_however_they_are_cut(http: HttpClient) -> None:
    await http.create_topic("t")
    body = {"records": [{"value": "x" * 300}]}
    chunked = (
        b"POST /topics/t HTTP/1.1\r\n" + HOST + b"Content-Type: application/x-ndjson\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}\n{}\r\n3;x=y\r\n\n{}\r\n0\r\nTrailer: 1\r\n\r\n"
    )
    stream = request_bytes("POST", "/topics/t", body) + chunked + request_bytes("GET", "/none") + HEALTH
    for piece_bytes in (3, 7, 100, len(stream)):
        assert await http.driver.feed(stream, piece_bytes=piece_bytes) == len(stream)
        first, second, third, fourth = answers_in(http.driver.take_sent())
        assert [each.status for each in (first, second, third, fourth)] == [200, 200, 404, 200]
        assert len(first.json["offsets"]) == 1
        assert len(second.json["offsets"]) == 3


@for_each(
    ("request_line_and_headers", "status"),
    [
        # Two lengths, or a length and chunks: a proxy may believe the other one.
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
        (b"Content-Length: 5, 6\r\n", 400),
        (b"Content-Length: +5\r\n", 400),
        (b"Content-Length: 0x5\r\n", 400),
        (b"Content-Length: -1\r\n", 400),
        (b"Content-Length : 5\r\n", 400),
        (b"Transfer-Encoding: gzip, chunked\r\n", 501),
        (b"Transfer-Encoding: xchunked\r\n", 501),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 501),
        (b"Transfer-Encoding : chunked\r\n", 400),
        (b"A: b\rc: d\r\n", 400),
        (b"A: \x00\r\n", 400),
        (b"A b: c\r\n", 400),
        (b"Host: other\r\n", 400),
        (b"Content-Length: 99999999999999999999\r\n", 413),
        (b"Content-Length: 5000000\r\n", 413),
        (b"".join(b"H%d: x\r\n" % number for number in range(MAX_HEADERS + 1)), 431),
        (b"A: " + b"x" * 2 * MAX_HEAD_BYTES + b"\r\n", 431),
    ],
)
async def test_a_request_that_may_be_two_or_too_large_ends_the_connection(
    broker: Broker, request_line_and_headers: bytes, status: int
) -> None:
    http = HttpClient(broker)
    await http.create_topic(f"t{status}") if broker.topics.find(f"t{status}") is None else None
    smuggled = request_bytes("DELETE", f"/topics/t{status}")
    await http.driver.feed(
        HEALTH + b"POST /topics/t HTTP/1.1\r\n" + HOST + request_line_and_headers + b"\r\n"
    )
    await http.driver.feed(b"0\r\n\r\n" + smuggled)
    healthy, refused = answers_in(http.driver.take_sent())
    assert (healthy.status, refused.status, refused.headers["connection"]) == (200, status, "close")
    assert isinstance(http.driver.ended, ConnectionFinished)
    assert broker.topics.find(f"t{status}") is not None


@for_each(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /health\r\n\r\n", 400),
        (b"GET /health HTTP/1.1\r\n\r\n", 400),
        (b"GET /health HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"POST /topics/t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"POST /topics/t HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc", 400),
        (
            b"POST /topics/t HTTP/1.1\r\n"
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + b"1" * 30
            + b"\r\n",
            400,
        ),
    ],
)
async def test_what_is_no_http_ends_the_connection(broker: Broker, data: bytes, status: int) -> None:
    http = HttpClient(broker)
    await http.driver.feed(data)
    (answer,) = answers_in(http.driver.take_sent())
    assert (answer.status, answer.json["error_code"]) == (status, status)
    await http.driver.serve()
    assert isinstance(http.driver.ended, ConnectionFinished)


@for_each(
    ("target", "status"),
    [
        ("http://broker/health", 200),
        ("/health?", 200),
        ("/health/", 200),
        ("//health", 404),
        ("/%68ealth", 200),
        ("/topics/%ff", 400),
        ("/health?%ff=1", 400),
        ("/health?" + "&".join(f"a{number}" for number in range(101)), 400),
        ("/topics/a%2Fb", 404),
        ("*", 404),
    ],
)
async def test_targets(http: HttpClient, target: str, status: int) -> None:
    assert (await http.send("GET", target)).status == status


async def test_a_method_that_is_not_served_names_those_that_are(http: HttpClient) -> None:
    answer = await http.send("PUT", "/topics")
    assert (answer.status, answer.json["message"]) == (405, "PUT is not served here: GET, POST")


async def test_pages_of_other_sites_may_send_nothing(http: HttpClient) -> None:
    assert (await http.send("GET", "/topics", Origin="https://evil.example")).status == 403
    assert (await http.send("GET", "/topics", Origin="null")).status == 403
    assert (await http.send("GET", "/topics", Origin="https://broker")).status == 200


async def test_a_client_of_http_1_0_and_one_that_says_close_get_one_response(broker: Broker) -> None:
    for request in (
        b"GET /health HTTP/1.0\r\n\r\n",
        request_bytes("GET", "/health", Connection="close"),
    ):
        http = HttpClient(broker)
        await http.driver.feed(request + HEALTH)
        (answer,) = answers_in(http.driver.take_sent())
        assert answer.status == 200
        assert isinstance(http.driver.ended, ConnectionFinished)


async def test_expect_100_continue_is_answered_before_the_body(http: HttpClient) -> None:
    await http.create_topic("t")
    request = request_bytes("POST", "/topics/t", {"records": [{"value": 1}]}, Expect="100-continue")
    head, _, body = request.partition(b"\r\n\r\n")
    await http.driver.feed(head + b"\r\n\r\n")
    assert http.driver.take_sent().startswith(b"HTTP/1.1 100 ")
    await http.driver.feed(body)
    assert [each.status for each in answers_in(http.driver.take_sent())] == [200]


async def test_a_body_beyond_the_limit_is_refused_as_soon_as_it_is_there(broker: Broker) -> None:
    http = HttpClient(broker)
    await http.create_topic("t")
    head = (
        b"POST /topics/t HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + bytes(65536) + b"\r\n"
    await http.driver.feed(head)
    sent = 0
    while http.driver.ended is None and sent < 10**8:
        sent += await http.driver.feed(chunk)
    (answer,) = answers_in(http.driver.take_sent())
    assert answer.status == 413
    assert sent <= http.service.max_request_bytes + 3 * len(chunk)


async def test_a_large_body_waits_for_memory_and_gives_it_back(broker: Broker) -> None:
    memory = GrantedMemory(limit_bytes=100_000)
    http = HttpClient(broker, memory=memory)
    await http.create_topic("t")
    request = request_bytes("POST", "/topics/t", b"x" * 300_000, "application/octet-stream")
    taken = await http.driver.feed(request)
    assert taken < 100_000
    assert memory.refusals > 0
    memory.limit_bytes = 300_000
    await http.driver.feed(request[taken:])
    (answer,) = answers_in(http.driver.take_sent())
    assert answer.status == 200
    assert memory.held_bytes == 0
    # A large body of known size has all that it needs at once.
    await http.driver.feed(request[:200_000])
    assert memory.held_bytes == 300_000


async def test_an_idle_connection_has_a_small_buffer(http: HttpClient) -> None:
    await http.create_topic("t")
    await http.send("POST", "/topics/t", b"x" * 300_000, "application/octet-stream")
    http.driver.connection.release_memory()
    assert len(http.driver.connection.receive_buffer()) == 8 * 1024


async def test_a_request_that_arrives_too_slowly_is_refused(broker: Broker) -> None:
    now = 100.0
    service = HttpService(broker)
    service.loop_clock = lambda: now
    for request in (HEALTH, request_bytes("POST", "/topics/t", {"records": []})):
        http = HttpClient(broker, service=service)
        for byte in range(len(request) - 1):
            await http.driver.feed(request[byte : byte + 1])
            now += 29.9 / len(request)
        assert not http.driver.sent
        now += 1.0
        # Between requests any time may pass.
        healthy = http.another()
        await healthy.driver.feed(HEALTH)
        now += 1000
        await healthy.driver.feed(HEALTH)
        assert [each.status for each in answers_in(healthy.driver.take_sent())] == [200, 200]
        await http.driver.feed(b"x" if request is HEALTH else b"")
        await http.driver.serve()
        (answer,) = answers_in(http.driver.take_sent())
        assert answer.status == 408


async def test_a_reading_client_that_leaves_is_given_up_and_a_change_is_completed(http: HttpClient) -> None:
    await http.create_topic("t")
    (partition,) = http.broker.topics.get("t").partitions
    with trio.CancelScope() as left:
        async with trio.open_nursery() as nursery:
            target = "/topics/t/partitions/0/records?timeout=30000"
            nursery.start_soon(partial(http.driver.feed, request_bytes("GET", target)))
            await trio.testing.wait_all_tasks_blocked()
            left.cancel()
    assert left.cancelled_caught
    assert not http.driver.sent
    await http.driver.serve()
    with trio.CancelScope() as left:
        left.cancel()
        await http.another().driver.feed(request_bytes("POST", "/topics", {"topic_name": "u"}))
    assert http.broker.topics.find("u") is not None
    assert partition.log.log_end_offset == 0


class Watching(RequestStage):
    """Notes what a stage gets, and does what a test wants."""

    phase = Phase.LOG

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []
        self.refusal: UnknownTopicOrPartition | None = None
        self.throttle_s = 0.0

    def before(self, request: Request) -> None:
        if self.refusal is not None:
            raise self.refusal

    def after(self, request: Request, response: object | None, seconds: float) -> float:
        message = request.message
        topics = getattr(message, "topics", None)
        self.seen.append((f"{request.api.name} of {request.client_id}", topics))
        return self.throttle_s


async def test_stages_see_operations_with_their_topics_and_refuse_and_throttle(
    broker: Broker, autojump_clock: trio.testing.MockClock
) -> None:
    watched = Watching()
    broker.request_stages = (watched,)
    http = HttpClient(broker)
    await http.create_topic("t")
    await http.send("POST", "/topics/t", {"records": [{"value": 1}]}, User_Agent="curl/8")
    await http.get("/health")
    assert watched.seen == [("CreateTopics of None", []), ("Produce of curl/8", ["t"])]
    watched.throttle_s = 1.5
    answer = await http.send("GET", "/topics")
    assert answer.headers["throttle-time-ms"] == "1500"
    started = trio.current_time()
    await http.get("/topics")
    assert trio.current_time() - started == pytest.approx(1.5)
    watched.refusal = UnknownTopicOrPartition("refused by a stage")
    answer = await http.send("POST", "/topics/t", {"records": [{"value": 2}]})
    assert (answer.status, answer.json["message"]) == (404, "refused by a stage")
    assert http.broker.replicas.log_of("t", 0).log_end_offset == 1


async def test_what_a_connection_says_of_itself(http: HttpClient) -> None:
    connection = http.driver.connection
    assert connection.current_request == ""
    await http.create_topic("t")
    await http.send("POST", "/topics/t", {"records": [{"value": 1}, {"value": 2}]})
    assert (connection.current_request, connection.records_received) == ("POST /topics/{topic}", 2)
    await http.get("/topics")
    assert connection.records_received == 0
    connection.close()


async def test_a_peer_of_tls_has_https_in_its_urls(broker: Broker) -> None:
    assert HttpService(broker).scheme_of(PEER) == "http"
    service = HttpService(broker)
    service.listeners["HTTP"] = attrs.evolve(service.listeners["HTTP"], security_protocol="SSL")
    assert service.scheme_of(PEER) == "https"
