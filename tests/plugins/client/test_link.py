"""Sockets that fail: the error is that of the connection, whichever call has met it."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from tests.tables import for_each
from tidelog.plugins.client import ClientSettings
from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.errors import BrokerClosed
from tidelog.plugins.client.link import Link, reason_of


@pytest.fixture
def link() -> Iterator[Link]:
    """A link whose peer has reset the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = socket.create_connection(listener.getsockname())
        peer, _ = listener.accept()
    made = Link(sock, Address("broker", 9092), ClientSettings())
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    yield made
    made.close()


@pytest.mark.parametrize("call", [Link.send, Link.receive])
def test_a_reset_is_the_failure_of_the_connection(link: Link, call: Callable[[Link], None]) -> None:
    call(link)
    assert isinstance(link.wire.failure, BrokerClosed)
    assert "connection to broker:9092 ended" in str(link.wire.failure)
    assert "connection reset by peer" in str(link.wire.failure)
    assert not link.has_outgoing


def caused_by(error: OSError, cause: BaseException) -> OSError:
    """The error with its cause."""
    error.__cause__ = cause
    return error


@for_each(
    ("make", "reason"),
    [
        (lambda: ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (lambda: PermissionError(errno.EPERM, "no"), "operation not permitted"),
        (lambda: socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (lambda: OSError("All attempts failed"), "all attempts failed"),
        (OSError, "oserror"),
        (lambda: ValueError("Odd"), "odd"),
        (ValueError, "valueerror"),
        (
            lambda: caused_by(OSError("all attempts failed"), ConnectionResetError(errno.ECONNRESET, "x")),
            "connection reset by peer",
        ),
        (
            lambda: ExceptionGroup("many", [OSError(errno.ECONNREFUSED, "x"), OSError(errno.EPERM, "y")]),
            "connection refused",
        ),
    ],
)
def test_reasons_are_the_words_of_the_system(make: Callable[[], BaseException], reason: str) -> None:
    assert reason_of(make()) == reason
