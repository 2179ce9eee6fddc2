"""The machine without a broker: what a bare loop of the same system calls reaches.

`receive_check_write` is the least that a broker does with a batch: take it off a socket, check its CRC-32C,
write it to a file. `send_file` is the least that it does for a consumer. The other end of the socket is a
process of its own, as a client is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
import crc32c

from benchmarks.payloads import make_values
from benchmarks.procfs import Usage, as_usage

from .meter import Meter

if TYPE_CHECKING:
    from collections.abc import Generator

_PATIENCE_S = 30.0
_SENT_FILE_BYTES = 64_000_000
_DRAIN_BUFFER_BYTES = 1_000_000
_OTHER_ENDS = {
    # Sends one chunk over and over, until the receiver has closed.
    "source": "while True: connection.sendall(chunk)",
    "drain": "while connection.recv_into(chunk): pass",
}
_OTHER_END = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
chunk = bytearray(sys.stdin.buffer.read())
try:
    {loop}
except OSError:
    pass
"""


@attrs.frozen
class MachineLimitSpec:
    """Move chunks of `chunk_bytes` between a socket and a file in `folder`, for `seconds` or `most_bytes`."""

    folder: str
    chunk_bytes: int
    seconds: float
    most_bytes: int


@attrs.frozen
class MachineLimitResult:
    """`bytes` moved in all."""

    bytes: int
    usage: Usage = attrs.field(converter=as_usage)


def receive_check_write(spec: MachineLimitSpec) -> MachineLimitResult:
    """Receive whole chunks into one buffer, check each one's CRC, write it to a new file."""
    chunk = _chunk(spec.chunk_bytes)
    expected = crc32c.crc32c(chunk)
    buffer = memoryview(bytearray(spec.chunk_bytes))
    moved = 0
    with (
        other_end("source", chunk) as (connection, peer_pid),
        tempfile.TemporaryFile(dir=spec.folder, buffering=0) as file,
    ):
        descriptor = file.fileno()
        fill_from(connection, buffer)
        meter = Meter(peer_pid)
        while moved < spec.most_bytes and meter.elapsed_s < spec.seconds:
            fill_from(connection, buffer)
            if crc32c.crc32c(buffer) != expected:
                raise RuntimeError("a chunk arrived broken")
            os.write(descriptor, buffer)
            moved += spec.chunk_bytes
        return MachineLimitResult(moved, meter.read())


def send_file(spec: MachineLimitSpec) -> MachineLimitResult:
    """Send a file from the page cache, chunk by chunk, over and over."""
    moved = 0
    with (
        other_end("drain", bytes(_DRAIN_BUFFER_BYTES)) as (connection, peer_pid),
        tempfile.TemporaryFile(dir=spec.folder, buffering=0) as file,
    ):
        chunk = _chunk(spec.chunk_bytes)
        chunks = max(1, _SENT_FILE_BYTES // spec.chunk_bytes)
        for _ in range(chunks):
            os.write(file.fileno(), chunk)
        meter = Meter(peer_pid)
        while moved < spec.most_bytes and meter.elapsed_s < spec.seconds:
            at = moved % (chunks * spec.chunk_bytes)
            moved += os.sendfile(connection.fileno(), file.fileno(), at, spec.chunk_bytes)
        return MachineLimitResult(moved, meter.read())


def _chunk(size: int) -> bytes:
    return b"".join(make_values(1000))[:size]


def fill_from(connection: socket.socket, buffer: memoryview) -> None:
    """Receive as much as the buffer holds."""
    filled = 0
    while filled < len(buffer):
        count = connection.recv_into(buffer[filled:])
        if not count:
            raise ConnectionResetError("the sender is gone")
        filled += count


@contextmanager
def other_end(kind: str, chunk: bytes) -> Generator[tuple[socket.socket, int]]:
    """A connection to a process, and its id, that sends `chunk` or receives into a buffer of its size."""
    program = _OTHER_END.format(loop=_OTHER_ENDS[kind])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_PATIENCE_S)
        port = str(listener.getsockname()[1])
        other = subprocess.Popen([sys.executable, "-c", program, port], stdin=subprocess.PIPE)
        try:
            assert other.stdin is not None
            other.stdin.write(chunk)
            other.stdin.close()
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(None)
                yield connection, other.pid
        finally:
            other.kill()
            other.wait()
