from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.peers import (
    LOOPBACK,
    answers_api_versions,
    answers_metadata,
    free_port,
    free_ports,
    wait_until_answers,
)
from tests.tables import for_each

if TYPE_CHECKING:
    from collections.abc import Generator


ROOT = Path(__file__).parents[2]
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def an_answer(correlation_id: int, error_code: int) -> bytes:
    body = struct.pack(">ihi", correlation_id, error_code, 0)
    return struct.pack(">i", len(body)) + body


@contextmanager
def one_answer(make: bytes | None, error_code: int = 0) -> Generator[tuple[int, list[bytes]]]:
    """A listener that reads one request and sends `make`, or a proper answer with `error_code`."""
    requests: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            requests.append(connection.recv(1000))
            correlation_id = struct.unpack_from(">i", requests[0], 8)[0]
            connection.sendall(an_answer(correlation_id, error_code) if make is None else make)

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], requests
        thread.join()


def test_the_probe_is_a_whole_api_versions_request() -> None:
    with one_answer(None) as (port, requests):
        assert answers_api_versions(LOOPBACK, port)
    size, api_key, version = struct.unpack_from(">ihh", requests[0])
    assert (size, api_key, version) == (len(requests[0]) - 4, 18, 0)


def test_an_error_code_is_no_answer() -> None:
    with one_answer(None, error_code=35) as (port, _):
        assert not answers_api_versions(LOOPBACK, port)


@for_each(
    "reply",
    [b"", b"\0\0", an_answer(1, 0), struct.pack(">i", -1), struct.pack(">i", 1 << 30), b"HTTP/1.1 400 no"],
    ids=["closed", "cut", "other-correlation", "negative", "giant", "other-protocol"],
)
def test_nonsense_is_no_answer(reply: bytes) -> None:
    with one_answer(reply) as (port, _):
        assert not answers_api_versions(LOOPBACK, port)


def test_waiting_ends_with_the_time_or_with_the_process() -> None:
    port = free_port()
    with pytest.raises(TimeoutError, match=f"{port} within 0.05 s"):
        wait_until_answers(LOOPBACK, port, 0.05)
    with pytest.raises(ConnectionAbortedError, match="ended before it answered"):
        wait_until_answers(LOOPBACK, port, 60, still_running=lambda: False)


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.create_server((LOOPBACK, port)):
            pass


@pytest.mark.skipif(not EPHEMERAL.exists(), reason="this system does not say which ports are for connecting")
def test_no_outgoing_connection_gets_a_free_port() -> None:
    first = int(EPHEMERAL.read_text().split()[0])
    assert max(free_ports(20)) < first


@pytest.mark.skipif(sys.platform != "linux", reason="ports are claimed by abstract socket names")
def test_a_port_is_given_to_one_process_while_that_lives() -> None:
    port = free_port()
    ask = f"from tests.peers import ports; ports._PORTS = range({port}, {port + 2}); print(ports.free_port())"
    command = [sys.executable, "-c", ask]
    told = [subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout for _ in range(2)]
    assert told == [f"{port + 1}\n"] * 2


def test_the_probe_of_old_brokers_is_a_whole_metadata_request() -> None:
    with one_answer(None) as (port, requests):
        assert not answers_metadata(LOOPBACK, port, topic=b"first")
    size, api_key, version = struct.unpack_from(">ihh", requests[0])
    assert (size, api_key, version) == (len(requests[0]) - 4, 3, 0)
    assert requests[0].endswith(struct.pack(">ih", 1, 5) + b"first")
    (probe,) = struct.unpack_from(">i", requests[0], 8)
    for brokers in (0, 1):
        with one_answer(struct.pack(">iiiih", 14, probe, brokers, 0, 0)) as (port, _):
            assert answers_metadata(LOOPBACK, port) == bool(brokers)
