"""Is a broker ready? Ask it what every Kafka client asks first."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_API_VERSIONS_KEY = 18
_CORRELATION_ID = 0x7469_6465
_CLIENT_ID = b"probe"
# A request of version 0 has the classic header v1 and no body (Kafka protocol guide, request header; API key
# 18).
_REQUEST_BODY = struct.pack(
    f">hhih{len(_CLIENT_ID)}s", _API_VERSIONS_KEY, 0, _CORRELATION_ID, len(_CLIENT_ID), _CLIENT_ID
)
_REQUEST = struct.pack(">i", len(_REQUEST_BODY)) + _REQUEST_BODY
# Correlation id, error code, number of ranges: the least that an answer holds.
_LEAST_ANSWER_BYTES = 10
_MOST_ANSWER_BYTES = 1 << 20


def answers_api_versions(host: str, port: int, timeout_s: float = 5.0) -> bool:
    """True once the broker at `host:port` answers ApiVersions version 0 without an error."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(_REQUEST)
            (size,) = struct.unpack(">i", _receive_exactly(connection, 4))
            if not _LEAST_ANSWER_BYTES <= size <= _MOST_ANSWER_BYTES:
                return False
            correlation_id, error_code = struct.unpack_from(">ih", _receive_exactly(connection, size))
    except OSError:
        return False
    return bool(correlation_id == _CORRELATION_ID and error_code == 0)


def wait_until_answers(
    host: str,
    port: int,
    timeout_s: float,
    *,
    interval_s: float = 0.02,
    still_running: Callable[[], bool] = lambda: True,
) -> float:
    """Ask every `interval_s` until the broker answers; the `time.monotonic()` of that first answer.

    Raises TimeoutError when `timeout_s` has passed, ConnectionAbortedError when `still_running` says no.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if answers_api_versions(host, port, timeout_s=max(0.01, deadline - time.monotonic())):
            return time.monotonic()
        if not still_running():
            raise ConnectionAbortedError(f"the broker ended before it answered at {host}:{port}")
        if time.monotonic() >= deadline:
            raise TimeoutError(f"nothing answered ApiVersions at {host}:{port} within {timeout_s:g} s")
        time.sleep(interval_s)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the broker closed the connection in the middle of its answer")
        received += chunk
    return bytes(received)
