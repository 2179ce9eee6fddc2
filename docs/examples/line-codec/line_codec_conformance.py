"""The suite of wire codecs for lines: what clients send, and how to read the answers."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel import Broker
from tidelog.kernel.testing.wire_codecs import WireCodecConformance, WireExchange


class LineConformance(WireCodecConformance):
    """There is one topic."""

    def exchanges(self) -> Sequence[WireExchange]:
        return [
            WireExchange(b"orders one more\n", b"ok"),
            WireExchange(b"nowhere text\n", b"error"),
            WireExchange(b"orders \xff\0\n", b"ok"),
        ]

    def answers(self, sent: bytes) -> Sequence[object]:
        *lines, rest = sent.split(b"\n")
        if rest:
            raise ValueError("an answer without an end")
        return [line.split()[0] for line in lines]

    async def prepare(self, broker: Broker) -> None:
        await broker.topics.ensure("orders")
