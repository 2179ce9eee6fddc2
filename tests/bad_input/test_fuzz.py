"""Thousands of spoiled requests of every version: the broker answers or closes, and lives on."""

from __future__ import annotations

import random
import socket
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog

from .mutations import spoiled_bytes, spoiled_fields
from .raw_client import RawClient
from .requests import ask
from .samples import sample, served_versions
from .test_memory import resident_kb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.peers import TidelogServer

SEED = 4711
VOLLEYS = 150
REQUESTS_PER_CONNECTION = 20
ANSWERS_WITHIN_S = 0.1
MAX_GROWTH_KB = 64 * 1024
MAX_LOG_BYTES = 4 * 1024 * 1024


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[TidelogServer]:
    """A broker of its own, since nothing else is to be found in its log."""
    with running_tidelog(tmp_path) as server:
        yield server


def test_every_good_sample_is_answered(fuzzed: TidelogServer) -> None:
    client = RawClient(fuzzed.bootstrap, "fuzz")
    for api, version in served_versions():
        request = sample(client, api, version)
        with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=DEADLINE_S) as connection:
            connection.sendall(ask(api, version, request).data)
            assert connection.recv(4), f"{api.name} version {version}"
    client.close()


@pytest.mark.parametrize("spoils", ["bytes", pytest.param("fields", marks=pytest.mark.long)])
def test_the_broker_outlives(spoils: str, fuzzed: TidelogServer) -> None:
    client = RawClient(fuzzed.bootstrap, "fuzz")
    content = client.content()
    before = resident_kb(fuzzed.pid)
    for requests in _volleys(_BY_NAME[spoils](client, random.Random(SEED))):
        _fire(fuzzed.port, b"".join(requests))
        assert fuzzed.process.is_running
    assert client.content()[: len(content)] == content
    client.close()
    assert resident_kb(fuzzed.pid) - before < MAX_GROWTH_KB
    logged = fuzzed.process.log_path.read_text()
    assert "Traceback" not in logged
    assert len(logged) < MAX_LOG_BYTES


def _with_spoiled_bytes(client: RawClient, chance: random.Random) -> Iterator[bytes]:
    frames = [ask(api, version, sample(client, api, version)).data for api, version in served_versions()]
    while True:
        yield spoiled_bytes(chance.choice(frames), chance)


def _with_spoiled_fields(client: RawClient, chance: random.Random) -> Iterator[bytes]:
    while True:
        api, version = chance.choice(served_versions())
        spoiled = spoiled_fields(api, version, sample(client, api, version), chance)
        if spoiled is not None:
            yield spoiled


_BY_NAME: dict[str, Callable[[RawClient, random.Random], Iterator[bytes]]] = {
    "bytes": _with_spoiled_bytes,
    "fields": _with_spoiled_fields,
}


def _volleys(requests: Iterator[bytes]) -> Iterator[list[bytes]]:
    """Requests for one connection each."""
    for _ in range(VOLLEYS):
        yield [next(requests) for _ in range(REQUESTS_PER_CONNECTION)]


def _fire(port: int, data: bytes) -> None:
    """Send, take what comes, and leave after a moment of silence."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWERS_WITHIN_S) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
        except OSError:
            return
