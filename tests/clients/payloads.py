"""Records that a client might well get wrong."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

ONE_DAY_IN_2013_MS = 1_357_034_400_000


class Payload(NamedTuple):
    """What goes in and has to come out; None is null."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


def _payload(key: bytes | None, value: bytes | None, headers: Headers = (), after_ms: int = 0) -> Payload:
    return Payload(key, value, headers, ONE_DAY_IN_2013_MS + after_ms)


ODD_PAYLOADS = (
    _payload(b"key", b"value"),
    _payload(None, b"no key", after_ms=1),
    _payload(b"tombstone", None, after_ms=3),
    _payload(None, None),
    _payload(b"", b""),
    _payload(bytes(range(256)), bytes(range(255, -1, -1))),
    _payload("clé".encode(), "значение".encode(), (("trace", b"1"), ("trace", b"2"), ("", b""))),
    _payload(b"null header", b"v", (("nothing", None),), after_ms=86_400_000),
    _payload(b"compresses well", b"tidelog " * 12_500),
    *(_payload(f"key {number}".encode(), f"value {number}".encode() * 20) for number in range(200)),
)

# aiokafka and kafka-python send no null in a header, and nothing that has neither key nor value.
PLAIN_PAYLOADS = tuple(
    payload
    for payload in ODD_PAYLOADS
    if all(value is not None for _, value in payload.headers) and payload[:2] != (None, None)
)
