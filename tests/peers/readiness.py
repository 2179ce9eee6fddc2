"""Is a broker ready? Ask it what every Kafka client asks first."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_API_VERSIONS_KEY = 18
_METADATA_KEY = 3
_CORRELATION_ID = 0x7469_6465
_CLIENT_ID = b"probe"
# A request of version 0 has the classic header v1 (Kafka protocol guide, request header; API key 18 and 3).
_HEADER = f">hhih{len(_CLIENT_ID)}s"
# Correlation id, error code, number of ranges: the least that an answer holds.
_LEAST_ANSWER_BYTES = 10
_MOST_ANSWER_BYTES = 1 << 20


def answers_api_versions(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """True once the broker at `host:port` answers ApiVersions version 0 without an error."""
    answer = _answer(host, port, timeout_s, _API_VERSIONS_KEY, b"")
    return answer is not None and struct.unpack_from(">h", answer, 4) == (0,)


def answers_metadata(host: str, port: int, timeout_s: float = 5.0, *, topic: bytes = b"") -> bool:
    """True once a broker of any age answers Metadata version 0 and names a broker.

    One of 0.8 names none before it has a topic: it creates `topic` then.
    """
    topics = struct.pack(f">ih{len(topic)}s", 1, len(topic), topic) if topic else struct.pack(">i", 0)
    answer = _answer(host, port, timeout_s, _METADATA_KEY, topics)
    return answer is not None and struct.unpack_from(">i", answer, 4)[0] > 0


def _answer(host: str, port: int, timeout_s: float, key: int, body: bytes) -> bytes | None:
    request = struct.pack(_HEADER, key, 0, _CORRELATION_ID, len(_CLIENT_ID), _CLIENT_ID) + body
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
            if not _LEAST_ANSWER_BYTES <= size <= _MOST_ANSWER_BYTES:
                return None
            answer = _receive_exactly(connection, size)
    except OSError:
        return None
    return answer if struct.unpack_from(">i", answer) == (_CORRELATION_ID,) else None


def wait_until_answers(
    host: str,
    port: int,
    timeout_s: float,
    *,
    interval_s: float = 0.02,
    still_running: Callable[[], bool] = lambda: True,
    answers: Callable[[str, int, float], bool] = answers_api_versions,
) -> float:
    """Ask every `interval_s` until the broker answers; the `time.monotonic()` of that first answer.

    Raises TimeoutError when `timeout_s` has passed, ConnectionAbortedError when `still_running` says no.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if answers(host, port, max(0.01, deadline - time.monotonic())):
            return time.monotonic()
        if not still_running():
            raise ConnectionAbortedError(f"the broker ended before it answered at {host}:{port}")
        if time.monotonic() >= deadline:
            raise TimeoutError(f"nothing answered at {host}:{port} within {timeout_s:g} s")
        time.sleep(interval_s)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection in the middle of its answer")
        received += chunk
    return bytes(received)
