"""Files of captured frames: a line for each exchange, and what two brokers' files have in common.

api key | version | request in hexadecimal | response in hexadecimal

The frames have no length in front. Of an API in a version few exchanges are kept, of which none are alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import attrs

from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.messages.header import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)
from tidelog.plugins.schema import decode, encode

from .proxy import Exchange

CAPTURED: Final = Path(__file__).parent / "captured"
LONGEST_BYTES: Final = 4096
"""Longer frames are not kept."""
MOST_OF_A_VERSION: Final = 3
"""Exchanges of an API in a version that are kept: the first ones whose messages are not alike."""
GENERATED: Final = frozenset(
    {
        "assignment",
        "assignments",
        "cluster_id",
        "config_source",
        "coordinator_epoch",
        "error_message",
        "finalized_features_epoch",
        "leader",
        "member_id",
        "port",
        "producer_id",
        "records",
        "session_id",
        "throttle_time_ms",
        "topic_id",
    }
)
"""Ids, times, ports, texts and what contains them, of which each broker and each run has its own."""


def file_of(client: str, broker: str) -> Path:
    """The file with what a client and a broker exchanged."""
    return CAPTURED / f"{client}-{broker}.txt"


def save(path: Path, exchanges: Iterable[Exchange]) -> None:
    """Write the exchanges that are worth keeping."""
    kept: dict[tuple[int, int], dict[str, Exchange]] = {}
    for exchange in exchanges:
        if max(len(exchange.request), len(exchange.response)) <= LONGEST_BYTES:
            alike = kept.setdefault((exchange.api_key, exchange.version), {})
            shape = repr([masked(request_in(exchange)[0]), masked(response_in(exchange)[0])])
            if len(alike) < MOST_OF_A_VERSION or not has_error(response_in(exchange)[0]):
                alike.setdefault(shape, exchange)
    lines = [
        f"{key} {version} {each.request.hex()} {each.response.hex()}\n"
        for (key, version), alike in sorted(kept.items())
        for each in [*alike.values()][-MOST_OF_A_VERSION:]
    ]
    path.write_text("".join(lines))


def load(path: Path) -> list[Exchange]:
    """Read the exchanges of a file."""
    rows = [line.split() for line in path.read_text().splitlines()]
    return [
        Exchange(int(key), int(version), bytes.fromhex(request), bytes.fromhex(response))
        for key, version, request, response in rows
    ]


def request_in(exchange: Exchange) -> tuple[Any, bytes]:
    """The request's message, and the frame that our codecs make of it."""
    api = APIS[exchange.api_key]
    header = parse_request_header(exchange.request)
    request = decode(api.request_class, exchange.version, exchange.request[header.body_position :])
    head = encode_request_header(api.key, exchange.version, header.correlation_id, header.client_id)
    return request, head + encode(request, exchange.version)


def response_in(exchange: Exchange) -> tuple[Any, bytes]:
    """The response's message, and the frame that our codecs make of it."""
    api = APIS[exchange.api_key]
    correlation_id, position = parse_response_header(api.key, exchange.version, exchange.response)
    response = decode(api.response_class, exchange.version, exchange.response[position:])
    head = encode_response_header(api.key, exchange.version, correlation_id)
    return response, head + encode(response, exchange.version)


def has_error(message: Any) -> bool:
    """Whether there is an error code in it."""
    if attrs.has(type(message)):
        names = [field.name for field in attrs.fields(type(message))]
        return any(
            bool(getattr(message, name)) if name.endswith("error_code") else has_error(getattr(message, name))
            for name in names
        )
    return isinstance(message, list) and any(map(has_error, message))


def masked(message: Any) -> Any:
    """A message as dictionaries and lists, without what brokers generate; each element of a list once."""
    if attrs.has(type(message)):
        return {
            field.name: masked(getattr(message, field.name))
            for field in attrs.fields(type(message))
            if field.name not in GENERATED
        }
    if isinstance(message, list):
        distinct = {repr(item): item for item in map(masked, message)}
        return [distinct[key] for key in sorted(distinct)]
    return bytes(message) if isinstance(message, memoryview) else message
