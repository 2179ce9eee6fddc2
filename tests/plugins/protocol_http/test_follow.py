"""Following a topic by server-sent events and WebSockets."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from tests.plugins.protocol_http.http_client import HttpClient, request_bytes
from tests.tables import for_each
from tidelog.kernel.seams.wire import ConnectionFinished

SSE = "text/event-stream"


@pytest.fixture
async def topic(http: HttpClient) -> str:
    await http.create_topic("t", 2)
    return "t"


class Follower:
    """A client that follows by server-sent events."""

    def __init__(self, http: HttpClient, query: str = "", **headers: str) -> None:
        self.driver = http.another().driver
        self._request = request_bytes("GET", f"/topics/t/follow{query}", Accept=SSE, **headers)

    async def start(self) -> bytes:
        await self.driver.feed(self._request)
        return self.driver.take_sent()

    async def events(self) -> list[dict[str, str]]:
        """Wait for the next piece; return its events by field."""
        await self.driver.wait()
        size, _, piece = self.driver.take_sent().partition(b"\r\n")
        text = piece[: int(size, 16)].decode()
        assert text.endswith("\n\n")
        return [
            dict(line.split(": ", 1) for line in event.split("\n") if ": " in line)
            for event in text[:-2].split("\n\n")
        ]


async def test_events_are_the_records_as_they_come(http: HttpClient, topic: str) -> None:
    await http.produce("t", "before")
    follower = Follower(http)
    head = await follower.start()
    assert b"200" in head
    assert b"text/event-stream" in head
    await http.produce("t", {"n": 1}, {"n": 2})
    events = await follower.events()
    assert [json.loads(event["data"])["value"] for event in events] == [{"n": 1}, {"n": 2}]
    assert events[-1]["id"] == "0:3,1:0"
    await http.produce("t", 3, partition=1)
    (event,) = await follower.events()
    assert json.loads(event["data"]) | {"timestamp": 0} == {
        "topic": "t",
        "partition": 1,
        "offset": 0,
        "timestamp": 0,
        "key": None,
        "value": 3,
    }


@for_each(
    ("query", "last_event_id", "values"),
    [
        ("?from=earliest&partition=0", "", ["a", "b", "c"]),
        ("?from=1&partition=0", "", ["b", "c"]),
        ("?partition=0", "0:2,1:0,junk", ["c"]),
        ("?from=earliest&partition=0", "7:1,0:x,:", ["a", "b", "c"]),
        ("?from=earliest&partition=0&max_bytes=1", "", ["a"]),
        ("?from=earliest&partition=0&format=binary&max_bytes=1", "", ["ImEi"]),
    ],
)
async def test_where_following_begins(
    http: HttpClient, abc: None, query: str, last_event_id: str, values: list[str]
) -> None:
    follower = Follower(http, query, Last_Event_Id=last_event_id)
    await follower.start()
    assert [json.loads(event["data"])["value"] for event in await follower.events()] == values


@pytest.fixture
async def abc(http: HttpClient, topic: str) -> None:
    await http.produce("t", "a", "b", "c")


async def test_a_quiet_topic_gives_signs_of_life(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    follower = Follower(http)
    await follower.start()
    started = trio.current_time()
    await follower.driver.wait()
    assert trio.current_time() - started == pytest.approx(15)
    assert follower.driver.take_sent() == b"3\r\n:\n\n\r\n"


async def test_a_wait_that_is_ended_loses_nothing(http: HttpClient, topic: str) -> None:
    follower = Follower(http)
    await follower.start()
    with trio.CancelScope() as ended:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follower.driver.wait)
            await trio.testing.wait_all_tasks_blocked()
            ended.cancel()
    await http.produce("t", "a")
    connection = follower.driver.connection
    assert connection.next_step() is None
    await follower.driver.serve()
    assert [json.loads(event["data"])["value"] for event in await follower.events()] == ["a"]


async def test_a_peer_that_sends_while_it_follows_is_ended(http: HttpClient, topic: str) -> None:
    follower = Follower(http)
    await follower.start()
    await follower.driver.feed(request_bytes("GET", "/health"))
    assert isinstance(follower.driver.ended, ConnectionFinished)
    assert not follower.driver.sent


async def test_events_end_with_an_error_when_the_topic_goes(http: HttpClient, topic: str) -> None:
    follower = Follower(http)
    await follower.start()
    await http.send("DELETE", "/topics/t")
    (event,) = await follower.events()
    assert event["event"] == "error"
    assert json.loads(event["data"])["error_code"] == 40401
    await follower.driver.wait()
    assert follower.driver.take_sent() == b"0\r\n\r\n"
    # The stream had an end, so the connection can be used again.
    await follower.driver.feed(request_bytes("GET", "/health"))
    assert b'{"status":"ok"}' in follower.driver.take_sent()


@for_each(
    ("target", "accept", "status"),
    [
        ("/topics/none/follow", SSE, 404),
        ("/topics/t/follow?partition=2", SSE, 404),
        ("/topics/t/follow?from=5", SSE, 400),
        ("/topics/t/follow?from=middle", SSE, 400),
        ("/topics/t/follow", "application/json", 406),
    ],
)
async def test_what_cannot_be_followed(
    http: HttpClient, topic: str, target: str, accept: str, status: int
) -> None:
    assert (await http.send("GET", target, Accept=accept)).status == status


class Socket:
    """A client of a WebSocket."""

    def __init__(self, http: HttpClient, query: str = "", origin: str | None = None) -> None:
        self.driver = http.another().driver
        self.client = WSConnection(ConnectionType.CLIENT)
        headers = [] if origin is None else [(b"Origin", origin.encode())]
        self._request = self.client.send(
            Request(host="broker", target=f"/topics/t/follow{query}", extra_headers=headers)
        )

    async def start(self) -> list[Event]:
        await self.driver.feed(self._request)
        return self.received()

    async def send(self, event: Event) -> list[Event]:
        await self.driver.feed(self.client.send(event))
        return self.received()

    async def wait(self) -> list[Event]:
        await self.driver.wait()
        return self.received()

    def received(self) -> list[Event]:
        self.client.receive_data(self.driver.take_sent())
        return list(self.client.events())


def texts(events: list[Event]) -> list[Any]:
    return [json.loads(event.data)["value"] for event in events if isinstance(event, TextMessage)]


async def test_a_websocket_gets_a_message_for_each_record(http: HttpClient, topic: str) -> None:
    socket = Socket(http, "?from=earliest")
    await http.produce("t", "é" * 200, {"line": "a\nb"})
    (opened,) = await socket.start()
    assert isinstance(opened, AcceptConnection)
    assert texts(await socket.wait()) == ["é" * 200, {"line": "a\nb"}]
    await http.produce("t", 3, partition=1)
    assert texts(await socket.wait()) == [3]


async def test_a_websocket_answers_pings_and_closes_while_it_waits(http: HttpClient, topic: str) -> None:
    socket = Socket(http)
    await socket.start()
    (pong,) = await socket.send(Ping(payload=b"x"))
    assert isinstance(pong, Pong)
    assert pong.payload == b"x"
    await http.produce("t", 1)
    assert texts(await socket.wait()) == [1]
    (closed,) = await socket.send(CloseConnection(code=1000))
    assert isinstance(closed, CloseConnection)
    assert isinstance(socket.driver.ended, ConnectionFinished)


async def test_a_quiet_websocket_is_pinged_and_ends_with_its_topic(
    http: HttpClient, topic: str, autojump_clock: trio.testing.MockClock
) -> None:
    socket = Socket(http)
    await socket.start()
    (ping,) = await socket.wait()
    assert isinstance(ping, Ping)
    await http.send("DELETE", "/topics/t")
    (message,) = await socket.wait()
    assert isinstance(message, TextMessage)
    assert json.loads(message.data)["error_code"] == 40401
    (closed,) = await socket.wait()
    assert isinstance(closed, CloseConnection)
    assert isinstance(socket.driver.ended, ConnectionFinished)


@for_each(
    ("sent", "code"),
    [
        (b"\x81\x85\x00\x00\x00\x00hello", 1008),
        (b"\x82\xfe\xff\xff\x00\x00\x00\x00" + bytes(70_000), 1008),
        (b"\x81\x05hello", 1002),
        (b"\xf1\x80\x00\x00\x00\x00", 1002),
        (b"\x83\x80\x00\x00\x00\x00", 1002),
        ((b"\x89\x80\x00\x00\x00\x00") * 20_000, 1009),
    ],
)
async def test_a_websocket_is_closed_if_its_peer_sends_what_it_may_not(
    http: HttpClient, topic: str, sent: bytes, code: int
) -> None:
    socket = Socket(http)
    await socket.start()
    await socket.driver.feed(sent)
    closed = socket.received()[-1]
    assert isinstance(closed, CloseConnection)
    assert closed.code == code
    assert isinstance(socket.driver.ended, ConnectionFinished)


async def test_a_websocket_is_opened_by_a_whole_handshake_of_the_same_site_alone(
    http: HttpClient, topic: str
) -> None:
    (refused, *_) = await Socket(http, origin="https://evil.example").start()
    assert isinstance(refused, RejectConnection)
    assert refused.status_code == 403
    target, key = "/topics/t/follow", "AAAAAAAAAAAAAAAAAAAAAA=="
    whole = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Key": key}
    assert (await http.send("GET", target, **whole, Sec_WebSocket_Version="8")).status == 426
    for name, value in (
        ("Connection", "close, x"),
        ("Sec_WebSocket_Key", "short"),
        ("Sec_WebSocket_Key", "é"),
    ):
        other = http.another()
        headers = {**whole, "Sec_WebSocket_Version": "13", name: value}
        answer = await other.send("GET", target, **headers)
        assert answer.status == 400, (name, value)
