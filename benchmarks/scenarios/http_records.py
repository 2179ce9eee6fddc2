"""Records in and out over HTTP, beside routes of aiohttp that call confluent-kafka, on the same broker."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Final

import attrs

from benchmarks.brokers import TIDELOG, TidelogKind
from benchmarks.rows import Better, Row, Sample, value_at_least
from tests.peers import LOOPBACK, TidelogServer, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from benchmarks.brokers import BrokerKind

    from .context import Bench

_RECORDS: Final = 100
"""In each request."""
_REQUESTS_BEFORE: Final = 20
_TURNS: Final = 6
_TOPIC: Final = "records"
_RECEIVED_BYTES: Final = 1 << 18
_PRODUCE, _FETCH = "http-produce", "http-fetch"


@attrs.frozen
class HttpRecords:
    """One client with one connection, which waits for each answer; both servers take turns."""

    name: str = attrs.field(default="http", init=False)

    @property
    def rows(self) -> Sequence[Row]:
        speed = "in the speed of aiohttp with confluent-kafka"
        return [
            Row(
                _PRODUCE,
                f"HTTP: produce {_RECORDS} JSON records a request, {speed}",
                "×",
                Better.HIGHER,
                (value_at_least(1.5),),
            ),
            Row(_FETCH, f"HTTP: fetch {_RECORDS} JSON records a request, {speed}", "×", Better.HIGHER),
        ]

    def applies_to(self, kind: BrokerKind) -> bool:
        return kind.key == TIDELOG

    def measure(self, bench: Bench, kind: BrokerKind, work_dir: Path) -> list[Sample]:
        port, http_port = free_port(), free_port()
        settings = {
            "listeners": f"PLAINTEXT://{LOOPBACK}:{port},HTTP://{LOOPBACK}:{http_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,HTTP:PLAINTEXT",
            "listener.codec.map": "HTTP:http",
        }
        server = TidelogServer(work_dir, settings, requested_port=port, launcher=TidelogKind().launcher)
        server.start()
        try:
            with (
                _routes(server.bootstrap) as route_port,
                _HttpConnection(http_port) as own,
                _HttpConnection(route_port) as others,
            ):
                return self._compared(own, others, bench.effort.slice_s)
        finally:
            server.stop()

    def _compared(self, own: _HttpConnection, others: _HttpConnection, slice_s: float) -> list[Sample]:
        to_produce = _produce_request()
        to_fetch = [_fetch_request(number * _RECORDS) for number in range(_REQUESTS_BEFORE)]
        for _ in to_fetch:
            own.ask(to_produce)
            others.ask(to_produce)

        def produce(server: _HttpConnection) -> float:
            return _speed(lambda _: server.ask(to_produce), slice_s)

        def fetch(server: _HttpConnection) -> float:
            return _speed(lambda count: server.ask(to_fetch[count % len(to_fetch)]), slice_s)

        return [_sample(_PRODUCE, produce, own, others), _sample(_FETCH, fetch, own, others)]


def _sample(
    name: str,
    measured: Callable[[_HttpConnection], float],
    own: _HttpConnection,
    others: _HttpConnection,
) -> Sample:
    # The first pair is a warm-up.
    pairs = [(measured(own), measured(others)) for _ in range(1 + _TURNS)][1:]
    details = {
        "tidelog_records_per_s": median(ours for ours, _ in pairs),
        "aiohttp_records_per_s": median(theirs for _, theirs in pairs),
    }
    return Sample(name, median(ours / theirs for ours, theirs in pairs), dict(details))


def _speed(ask: Callable[[int], object], slice_s: float) -> float:
    """Return records a second."""
    begun, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begun) < slice_s:
        ask(count)
        count += 1
    return count * _RECORDS / elapsed


class _HttpConnection:
    """A connection that costs next to nothing: requests are made before, answers only cut out."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((LOOPBACK, port))

    def __enter__(self) -> _HttpConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

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
        data = self._socket.recv(_RECEIVED_BYTES)
        assert data, "the server has closed the connection"
        return data


def _produce_request() -> bytes:
    values = [{"id": number, "name": "a cup of tea", "price": 3.5} for number in range(_RECORDS)]
    body = json.dumps({"records": [{"value": value} for value in values]}).encode()
    head = (
        f"POST /topics/{_TOPIC} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _fetch_request(offset: int) -> bytes:
    path = f"/topics/{_TOPIC}/partitions/0/records?offset={offset}&max_records={_RECORDS}"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n".encode()


@contextmanager
def _routes(bootstrap: str) -> Generator[int]:
    """Run the other server until the end of the block; its port."""
    command = [sys.executable, "-m", "benchmarks.http_route", bootstrap, _TOPIC]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()
