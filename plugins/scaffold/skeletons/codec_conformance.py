"""The suite of wire codecs for this one: requests, and how to read answers."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.testing.wire_codecs import WireCodecConformance, WireExchange


class SkeletonCodecConformance(WireCodecConformance):
    """Each line has an answer of one line."""

    def exchanges(self) -> Sequence[WireExchange]:
        """Return lines with their answers."""
        return [
            WireExchange(line + b"\n", line + b": 0 topics")
            for line in (b"how many?", b"and now?", b"\xff\0")
        ]

    def answers(self, sent: bytes) -> Sequence[object]:
        """Return the lines that were sent."""
        *lines, rest = sent.split(b"\n")
        if rest:
            raise ValueError("a line without an end")
        return lines
