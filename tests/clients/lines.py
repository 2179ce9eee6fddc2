"""Records as lines of text, for programs in other languages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .payloads import Payload


def lines_of(payloads: Sequence[Payload]) -> str:
    """What a program takes: a line for each record, as `RoundTrip.java` describes it."""
    return "".join(map(_line, payloads))


def lines_read_back(payloads: Sequence[Payload]) -> str:
    """What a program prints that produced `payloads` to an empty partition and read them back."""
    return "".join(f"{offset} {offset} {_line(payload)}" for offset, payload in enumerate(payloads))


def _line(payload: Payload) -> str:
    headers = [f"{name.encode().hex()}={_hex(value)}" for name, value in payload.headers]
    return " ".join([str(payload.timestamp_ms), _hex(payload.key), _hex(payload.value), *headers]) + "\n"


def _hex(content: bytes | None) -> str:
    return "null" if content is None else content.hex()
