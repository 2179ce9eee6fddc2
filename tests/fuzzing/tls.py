"""The entry of listeners with TLS: what clients send before their handshake has ended.

An input is all that a connection sends. The broker answers with records of TLS or not at all, and closes.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S
from tests.fuzzing.target import Complaints
from tests.tls_certificates import client_context, hello, tls_settings
from tidelog.kernel.testing.broker import broker_in_thread

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_RECORD_TYPES = frozenset(range(20, 24))
"""Change of cipher, alert, handshake, application data."""
_OLD_HELLO = bytes.fromhex(f"16 03 00 00 2d 01 00 00 29 03 00 {'5a' * 32} 00 00 02 00 2f 01 00")
_CHANGE = bytes.fromhex("14 03 03 00 01 01")
_FINISHED = bytes.fromhex("17 03 03 00 35") + b"\x5a" * 0x35
_ALERT = bytes.fromhex("15 03 03 00 02 02 2a")
_MOST_ANSWERED = 1 << 16


class UnexpectedAnswerError(Exception):
    """The broker answers with what is no TLS, or with too much of it."""


class Tls:
    """A broker in a thread that requires certificates, and a new connection for each input."""

    def __init__(self) -> None:
        self._complaints = Complaints()
        self._folder = TemporaryDirectory()
        self._open = ExitStack()
        self._address: tuple[str, int]

    def __enter__(self) -> Tls:
        settings = tls_settings(Path(self._folder.name), None, ssl_client_auth="required")
        self._open.callback(self._folder.cleanup)
        broker = self._open.enter_context(broker_in_thread(settings))
        host, _, port = broker.bootstrap.rpartition(":")
        self._address = host, int(port)
        self._open.enter_context(self._complaints)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def seeds(self) -> Sequence[bytes]:
        """Return first messages of clients, and what follows them in handshakes that fail."""
        first = hello(client_context(Path(self._folder.name)))
        return [
            first,
            first + _CHANGE + _FINISHED,
            first + _ALERT,
            first * 2,
            first[:5] + b"\0" + first[6:],
            _OLD_HELLO,
            bytes.fromhex("16 03 01 00 04 01 00 00 00"),
            b"\0\0\0\x10\0\x12\0\3",
        ]

    def run(self, data: bytes) -> None:
        """Connect, send the input, and read to the end."""
        with socket.create_connection(self._address, DEADLINE_S) as client:
            answered = _exchange(client, data)
        self._complaints.raise_first()
        if answered and (answered[0] not in _RECORD_TYPES or len(answered) >= _MOST_ANSWERED):
            raise UnexpectedAnswerError(f"{len(answered)} bytes that begin with {answered[:8]!r}")


def _exchange(client: socket.socket, data: bytes) -> bytes:
    """Return what the broker sends until it closes.

    Raises:
        TimeoutError: it does not.
    """
    answered = b""
    try:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while len(answered) < _MOST_ANSWERED and (part := client.recv(_MOST_ANSWERED)):
            answered += part
    except ConnectionError:
        # It may close before it has read all.
        pass
    return answered
