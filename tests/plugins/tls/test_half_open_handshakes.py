"""Handshakes that begin and do not end: what each costs the broker, and whether others get in meanwhile."""

from __future__ import annotations

import socket
import ssl
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.procfs import resident_bytes
from tests.deadlines import DEADLINE_S, wait_until
from tests.peers import LOOPBACK, running_tidelog
from tests.tls_certificates import client_context, hello, tls_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.peers import TidelogServer

COUNT, KB = 300, 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TidelogServer, ssl.SSLContext]]:
    """A process with a listener for TLS, and what its clients have."""
    folder = tmp_path_factory.mktemp("half-open")
    settings = {name: value for name, value in tls_settings(folder).items() if name != "listeners"}
    with running_tidelog(folder / "broker", settings=settings) as server:
        context = client_context(folder)
        for _ in range(20):
            shake_hands(server, context)
        yield server, context


def shake_hands(server: TidelogServer, context: ssl.SSLContext) -> None:
    """Connect with TLS, and leave."""
    with (
        socket.create_connection((LOOPBACK, server.tls_port), DEADLINE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert connection.version() == "TLSv1.3"


@pytest.mark.long
@pytest.mark.parametrize(
    ("sent", "most_kb"),
    [(0, 12), (1, 12), (100, 12), (None, 100)],
    ids=["nothing", "a byte", "a part of the hello", "the hello"],
)
def test_a_handshake_that_stops_costs_little_which_is_given_back(
    broker: tuple[TidelogServer, ssl.SSLContext], sent: int | None, most_kb: int
) -> None:
    server, context = broker
    first = hello(context)[:sent]
    descriptors = Path(f"/proc/{server.pid}/fd")
    before = resident_bytes(server.pid)
    with ExitStack() as connections:
        for _ in range(COUNT):
            sock = connections.enter_context(
                socket.create_connection((LOOPBACK, server.tls_port), DEADLINE_S)
            )
            sock.sendall(first)
        wait_until(lambda: len(list(descriptors.iterdir())) > COUNT, "all are accepted")
        shake_hands(server, context)
        assert resident_bytes(server.pid) - before < COUNT * most_kb * KB
    wait_until(lambda: len(list(descriptors.iterdir())) < COUNT, "all have ended")
    wait_until(lambda: resident_bytes(server.pid) < before + COUNT * 12 * KB, "their memory is given back")
