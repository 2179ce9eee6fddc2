"""A blocking connection for loads that replay pre-encoded requests; kio encodes them, once."""

from __future__ import annotations

import io
import socket
import ssl
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32

if TYPE_CHECKING:
    from types import TracebackType

_CLIENT_ID = "tidelog-benchmarks"
_SIZE = struct.Struct(">i")
_TIMEOUT_S = 30.0
_BUFFER_BYTES = 1 << 20


def encode_frame(request: Any) -> bytearray:
    """A whole frame, length and header included, of a kio request entity; its correlation id is 0."""
    with io.BytesIO() as body:
        header_type = type(request).__header_schema__
        header = header_type(
            request_api_key=i16(type(request).__api_key__),
            request_api_version=i16(type(request).__version__),
            correlation_id=i32(0),
            client_id=_CLIENT_ID,
        )
        entity_writer(header_type)(body, header)
        entity_writer(type(request))(body, request)
        return bytearray(_SIZE.pack(body.tell()) + body.getvalue())


@cache
def tls_context(ca_file: str) -> ssl.SSLContext:
    """TLS 1.3 to a broker that an authority has signed, for connections without session resumption."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


class RawConnection:
    """Sends frames to one broker and receives its answers, in order; OSError when the peer is gone.

    With a `ca_file` over TLS 1.3: the authority that has signed the broker's certificate.
    """

    def __init__(self, bootstrap: str, ca_file: str = "") -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if ca_file:
            self._socket = tls_context(ca_file).wrap_socket(self._socket, server_hostname=host)
        self._discarded = memoryview(bytearray(_BUFFER_BYTES))

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """The socket, for selectors."""
        return self._socket.fileno()

    def receive_some(self) -> bytes:
        """What has arrived, at least a byte."""
        received = self._socket.recv(_BUFFER_BYTES)
        if not received:
            raise ConnectionResetError("the broker closed the connection")
        return received

    def send(self, frame: bytes | bytearray | memoryview) -> None:
        """Send a whole frame."""
        self._socket.sendall(frame)

    def receive_size(self) -> int:
        """The length of the next answer, whose bytes follow."""
        (size,) = _SIZE.unpack(self.receive(_SIZE.size))
        return int(size)

    def receive(self, size: int) -> bytes:
        """The next `size` bytes."""
        return bytes(self.receive_buffer(size))

    def receive_buffer(self, size: int) -> bytearray:
        """The next `size` bytes, which may be changed."""
        received = bytearray(size)
        self._receive_into(memoryview(received))
        return received

    def discard(self, size: int) -> None:
        """Take the next `size` bytes from the socket and forget them."""
        while size:
            part = self._discarded[: min(size, _BUFFER_BYTES)]
            self._receive_into(part)
            size -= len(part)

    def call(self, request: Any, response_type: Any) -> Any:
        """Send a kio request and decode its answer; nothing else may be in flight."""
        self.send(encode_frame(request))
        return self.receive_response(response_type)

    def receive_response(self, response_type: Any) -> Any:
        """Receive the next answer and decode it."""
        answer = self.receive(self.receive_size())
        _, header_bytes = entity_reader(response_type.__header_schema__)(answer, 0)
        response, _ = entity_reader(response_type)(answer, header_bytes)
        return response

    def _receive_into(self, target: memoryview) -> None:
        while target:
            count = self._socket.recv_into(target)
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            target = target[count:]
