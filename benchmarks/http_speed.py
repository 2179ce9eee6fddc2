"""How fast records go in and out over HTTP, beside a route of aiohttp that calls confluent-kafka.

`python -m benchmarks.http_speed`: one client with one connection sends 100 JSON records a request and waits
for each answer; then it reads them, 100 a request. Both servers store in the same broker. Slices of both
alternate; printed are records a second (the median of the slices) and the median of their ratios.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

RECORDS = 100
TOPIC = "speed"


def serve_route(bootstrap: str) -> None:
    """Run the aiohttp server that people write: its producer and consumer are those of confluent-kafka."""
    import asyncio

    from aiohttp import web
    from confluent_kafka import Consumer, Producer, TopicPartition

    async def produce(request: web.Request) -> web.Response:
        loop, body = asyncio.get_running_loop(), await request.json()
        left, done = len(body["records"]), loop.create_future()
        offsets: list[dict[str, int]] = []

        def delivered(error: Any, message: Any) -> None:
            nonlocal left
            left -= 1
            offsets.append({"partition": message.partition(), "offset": message.offset()})
            if not left:
                loop.call_soon_threadsafe(done.set_result, None)

        for record in body["records"]:
            producer.produce(TOPIC, json.dumps(record["value"]).encode(), on_delivery=delivered)
        await done
        return web.json_response({"offsets": offsets})

    async def fetch(request: web.Request) -> web.Response:
        offset = int(request.query["offset"])

        def read() -> list[dict[str, Any]]:
            consumer.assign([TopicPartition(TOPIC, 0, offset)])
            return [
                {"offset": each.offset(), "value": json.loads(each.value() or b"")}
                for each in consumer.consume(RECORDS, 10)
            ]

        return web.json_response(await asyncio.get_running_loop().run_in_executor(None, read))

    def poll() -> None:
        while True:
            producer.poll(1)

    import threading

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "speed", "enable.auto.commit": False})
    threading.Thread(target=poll, daemon=True).start()
    app = web.Application()
    app.add_routes([web.post("/topics/speed", produce), web.get("/topics/speed/partitions/0/records", fetch)])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        web.run_app(app, sock=listening, print=None, access_log=None)


class HttpConnection:
    """A connection that costs a server's rival nothing: requests are made before, answers only cut out."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))

    def ask(self, request: bytes) -> bytes:
        """Send a request; return the body of its answer."""
        self._socket.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        assert b" 200 " in head.partition(b"\r\n")[0], head
        (length,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < int(length.partition(b":")[2]):
            body += self._receive()
        return body

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 18)
        assert data, "the server has closed the connection"
        return data


def produce_request() -> bytes:
    """Return a request with the records."""
    values = [{"id": number, "name": "a cup of tea", "price": 3.5} for number in range(RECORDS)]
    body = json.dumps({"records": [{"value": value} for value in values]}).encode()
    head = (
        f"POST /topics/{TOPIC} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def fetch_request(offset: int) -> bytes:
    """Return a request for the records from an offset on."""
    path = f"/topics/{TOPIC}/partitions/0/records?offset={offset}&max_records={RECORDS}"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()


def rate(ask: Callable[[int], object], seconds: float) -> float:
    """Return records a second of a slice."""
    begun, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begun) < seconds:
        ask(count)
        count += 1
    return count * RECORDS / elapsed


@contextmanager
def started(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """Run a Python process until the end of the block."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def measure(slices: int, seconds: float) -> None:
    """Start both servers, and print what they do."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0,HTTP://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:PLAINTEXT",
            "listener.codec.map": "HTTP:http",
            "storage": "memory",
        }
        ready = folder / "ready.json"
        options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        stack.enter_context(started("-m", "tidelog.kernel", "serve", "--ready-file", str(ready), *options))
        while not ready.exists():
            time.sleep(0.05)
        addresses = json.loads(ready.read_text())["listeners"]
        route = stack.enter_context(started("-m", "benchmarks.http_speed", "--route", addresses["PLAINTEXT"]))
        assert route.stdout is not None
        tidelog = HttpConnection(int(addresses["HTTP"].rpartition(":")[2]))
        aiohttp = HttpConnection(int(route.stdout.readline()))
        produce, fetches = produce_request(), [fetch_request(number * RECORDS) for number in range(20)]
        for _ in fetches:
            tidelog.ask(produce)
            aiohttp.ask(produce)

        def send(server: HttpConnection) -> float:
            return rate(lambda _: server.ask(produce), seconds)

        def fetch(server: HttpConnection) -> float:
            return rate(lambda count: server.ask(fetches[count % len(fetches)]), seconds)

        _compare("produce", slices, send, tidelog, aiohttp)
        _compare("fetch", slices, fetch, tidelog, aiohttp)


def _compare(
    name: str,
    slices: int,
    measured: Callable[[HttpConnection], float],
    tidelog: HttpConnection,
    aiohttp: HttpConnection,
) -> None:
    pairs = [(measured(tidelog), measured(aiohttp)) for _ in range(slices)]
    ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(own / other for own, other in pairs)
    print(f"{name}: tidelog {ours:,.0f}, aiohttp and confluent-kafka {theirs:,.0f} records/s: {ratio:.2f}x")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--route", help=argparse.SUPPRESS)
    parser.add_argument("--slices", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    chosen = parser.parse_args()
    if chosen.route:
        serve_route(chosen.route)
    else:
        measure(chosen.slices, chosen.seconds)
