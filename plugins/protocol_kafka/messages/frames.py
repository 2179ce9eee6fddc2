"""Whole frames: size, header and body, ready to be sent.

int32 size of the rest | header | body
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from tidelog.plugins.protocol_kafka.codecs.compiled import encoder
from tidelog.plugins.protocol_kafka.codecs.types import total_size
from tidelog.plugins.protocol_kafka.messages.header import encode_request_header, encode_response_header

if TYPE_CHECKING:
    from tidelog.plugins.protocol_kafka.codecs.types import Part

_SIZE: Final = struct.Struct(">i")


def encode_response(api_key: int, api_version: int, correlation_id: int, response: object) -> list[Part]:
    """Return a response's frame as few parts, the first of which is bytes.

    Raises:
        EncodeError: the version cannot carry a value.
        KeyError: no API here has that key.
        ValueError: the API has no such version.
    """
    header = encode_response_header(api_key, api_version, correlation_id)
    return _framed(header, response, api_version)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: object
) -> list[Part]:
    """Return a request's frame as few parts, the first of which is bytes.

    Raises:
        EncodeError: the version cannot carry a value.
        KeyError: no API here has that key.
        ValueError: the API has no such version.
    """
    header = encode_request_header(api_key, api_version, correlation_id, client_id)
    return _framed(header, request, api_version)


def _framed(header: bytes, message: object, version: int) -> list[Part]:
    parts: list[Part] = []
    encoder(type(message), version)(message, parts)
    head = _SIZE.pack(len(header) + total_size(parts)) + header
    if parts and isinstance(parts[0], bytes):
        parts[0] = head + parts[0]
    else:
        parts.insert(0, head)
    return parts
