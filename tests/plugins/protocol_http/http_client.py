"""A client of the HTTP listener without a socket: what it sends goes straight into a connection."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs
import h11

from tidelog.kernel import Broker
from tidelog.kernel.seams.wire import Peer
from tidelog.kernel.testing.wire import GrantedMemory, WireDriver
from tidelog.plugins.protocol_http.connection import HttpConnection
from tidelog.plugins.protocol_http.service import HttpService

BROKER: Final[Mapping[str, object]] = {
    "listeners": "PLAINTEXT://127.0.0.1:0,HTTP://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:PLAINTEXT",
    "listener.codec.map": "HTTP:http",
    "auto.create.topics.enable": False,
    # Its clock is that of the wall, which stands still where tests let time pass.
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
PEER: Final = Peer("192.0.2.1", 40_000, "HTTP")


@attrs.frozen
class Answer:
    """A response as the client has it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request_bytes(
    method: str,
    target: str,
    body: object = None,
    content_type: str = "application/json",
    **headers: str,
) -> bytes:
    """A request; a body that is no bytes is JSON."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", "Host: broker"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body is not None:
        lines += [f"Content-Type: {content_type}", f"Content-Length: {len(content)}"]
    return "\r\n".join([*lines, "", ""]).encode() + content


def answers_in(data: bytes) -> list[Answer]:
    """All whole responses in some bytes."""
    return [answer for answer, _ in _parsed(data)]


def _parsed(data: bytes) -> list[tuple[Answer, bytes]]:
    found: list[tuple[Answer, bytes]] = []
    while data:
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method="GET", target="/", headers=[("Host", "broker")]))
        client.send(h11.EndOfMessage())
        client.receive_data(data)
        head: Any = None
        body = b""
        while True:
            event = client.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif not isinstance(event, h11.InformationalResponse):
                break
        if not isinstance(event, h11.EndOfMessage):
            break
        data = client.trailing_data[0]
        headers = {name.decode(): value.decode() for name, value in head.headers}
        found.append((Answer(head.status_code, headers, body), data))
    return found


class HttpClient:
    """One connection to a broker."""

    def __init__(
        self,
        broker: Broker,
        *,
        service: HttpService | None = None,
        peer: Peer = PEER,
        memory: GrantedMemory | None = None,
    ) -> None:
        self.broker = broker
        self.service = service or HttpService(broker)
        self.memory = memory or GrantedMemory()
        self.connection = HttpConnection(self.service, peer, self.memory)
        self.driver = WireDriver(self.connection)

    def another(self, peer: Peer = PEER) -> HttpClient:
        """A further connection to the same broker."""
        return HttpClient(self.broker, service=self.service, peer=peer)

    async def send(self, method: str, target: str, *args: Any, **headers: str) -> Answer:
        """Send a request; return its response."""
        await self.driver.feed(request_bytes(method, target, *args, **headers))
        (answer,) = answers_in(self.driver.take_sent())
        return answer

    async def get(self, target: str, **headers: str) -> Any:
        """Return the JSON at a path."""
        answer = await self.send("GET", target, **headers)
        assert answer.status == 200, answer
        return answer.json

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        answer = await self.send("POST", "/topics", {"topic_name": name, "partitions_count": partitions})
        assert answer.status == 201, answer

    async def produce(self, topic: str, *values: object, partition: int = 0) -> None:
        """Append values of JSON to a partition."""
        records = [{"value": value} for value in values]
        answer = await self.send("POST", f"/topics/{topic}/partitions/{partition}", {"records": records})
        assert answer.status == 200, answer
