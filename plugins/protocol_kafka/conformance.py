"""The suite of wire codecs for Kafka's protocol."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from tidelog.kernel import Broker
from tidelog.kernel.testing.wire_codecs import WireCodecConformance, WireExchange
from tidelog.plugins.schema.types import uvarint

API_VERSIONS: Final = 18
FETCH: Final = 1
METADATA: Final = 3
LARGE_BYTES: Final = 300 * 1024
_FIRST_TAG: Final = 10_000


def framed(content: bytes) -> bytes:
    """Return a request with its length in front."""
    return struct.pack(">i", len(content)) + content


def request_of(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    """Return a whole request with header v1 and without client id."""
    return framed(struct.pack(">hhih", api_key, version, correlation_id, -1) + body)


def _topics(*names: bytes) -> bytes:
    """Return an array of names of topics."""
    return struct.pack(">i", len(names)) + b"".join(struct.pack(">h", len(each)) + each for each in names)


class KafkaCodecConformance(WireCodecConformance):
    """An answer is known by its correlation id, which each request has another of."""

    codec_name = "kafka"
    settings: ClassVar[Mapping[str, object]] = {"auto.create.topics.enable": False}

    def exchanges(self) -> Sequence[WireExchange]:
        """Return requests that nothing refuses."""
        return [
            WireExchange(request_of(API_VERSIONS, 0, 7, b""), 7),
            WireExchange(request_of(METADATA, 0, 2**31 - 1, _topics(b"none")), 2**31 - 1),
            WireExchange(request_of(METADATA, 1, -5, _topics()), -5),
            WireExchange(request_of(API_VERSIONS, 99, 8, b"\0???"), 8),
        ]

    def answers(self, sent: bytes) -> Sequence[object]:
        """Return the correlation ids of whole responses."""
        found: list[object] = []
        while sent:
            length, correlation_id = struct.unpack_from(">ii", sent)
            if len(sent) < 4 + length:
                raise ValueError(f"{len(sent)} bytes of a response of {length}")
            found.append(correlation_id)
            sent = sent[4 + length :]
        return found

    def refused(self) -> Sequence[bytes]:
        """Return frames that Kafka, too, answers by closing the connection."""
        return [
            struct.pack(">i", -1),
            struct.pack(">i", 2**31 - 1),
            framed(b""),
            framed(b"\0\x12"),
            request_of(METADATA, 0, 1, struct.pack(">i", 2**31 - 1)),
            request_of(METADATA, 0, 1, b""),
            request_of(9999, 0, 1, b""),
            request_of(METADATA, 99, 1, b""),
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"GET / HTTP/1.1\r\n\r\n",
        ]

    def endless(self) -> bytes:
        """Return how a frame of the largest size begins."""
        return struct.pack(">i", 100 * 1024 * 1024) + b"\0" * 1020

    def large(self) -> WireExchange:
        """Return a request with a tagged field that no broker knows (KIP-482)."""
        tagged = b"\x01" + uvarint(_FIRST_TAG) + uvarint(LARGE_BYTES) + b"x" * LARGE_BYTES
        head = struct.pack(">hhih", API_VERSIONS, 3, 9, -1)
        return WireExchange(framed(head + b"\0" + b"\x02a" + b"\x02b" + tagged), 9)

    async def prepare(self, broker: Broker) -> None:
        """Create the topic that is fetched."""
        await broker.topics.ensure("t")

    def waiting(self) -> bytes:
        """Return a fetch of an empty partition that waits for a minute."""
        partition = struct.pack(">iiqi", 1, 0, 0, 1024)
        head = struct.pack(">iiiib", -1, 60_000, 1, 1024, 0)
        return request_of(FETCH, 4, 10, head + _topics(b"t") + partition)
