"""The suite of wire codecs for HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import h11

from tidelog.kernel import Broker
from tidelog.kernel.testing.wire_codecs import WireCodecConformance, WireExchange

HOST: Final = b"Host: broker\r\n"
LARGE_BYTES: Final = 300 * 1024


class HttpCodecConformance(WireCodecConformance):
    """An answer is known by its status, and the path that is not there by its text."""

    codec_name = "http"
    settings: ClassVar[Mapping[str, object]] = {"auto.create.topics.enable": False}

    def exchanges(self) -> Sequence[WireExchange]:
        """Return requests with and without a body, in one piece and in chunks."""
        chunked = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        return [
            WireExchange(b"GET /health HTTP/1.1\r\n" + HOST + b"\r\n", 200),
            WireExchange(b"GET /nowhere HTTP/1.1\r\n" + HOST + b"\r\n", 404),
            WireExchange(b"DELETE /health HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}", 405),
            WireExchange(b"POST /nowhere HTTP/1.1\r\n" + HOST + chunked, 404),
        ]

    def answers(self, sent: bytes) -> Sequence[object]:
        """Return the status of each whole response."""
        found: list[object] = []
        while sent:
            client = h11.Connection(h11.CLIENT)
            client.send(h11.Request(method="GET", target="/", headers=[("Host", "broker")]))
            client.send(h11.EndOfMessage())
            client.receive_data(sent)
            status = 0
            while not isinstance(event := client.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    raise ValueError("a part of a response")
                if isinstance(event, h11.Response):
                    status = event.status_code
            found.append(status)
            sent = client.trailing_data[0]
        return found

    def refused(self) -> Sequence[bytes]:
        """Return heads after which no one knows where the next request begins."""
        return [
            b"\r\nnonsense\r\n\r\n",
            b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
            b"GET / HTTP/1.1\r\n\r\n",
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"x" * 100_000 + b"\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40 + b"\r\n",
        ]

    def large(self) -> WireExchange:
        """Return a body for a path that is not there."""
        head = b"POST /nowhere HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % LARGE_BYTES
        return WireExchange(head + b" " * LARGE_BYTES, 404)

    async def prepare(self, broker: Broker) -> None:
        """Create the topic that is followed."""
        await broker.topics.ensure("t")

    def waiting(self) -> bytes:
        """Return a request for what follows in a stream without an end."""
        return b"GET /topics/t/follow HTTP/1.1\r\n" + HOST + b"Accept: text/event-stream\r\n\r\n"
