"""Headers of requests and responses, and whole frames, ready to be sent.

    frame     int32 size of the rest | header | body
    request   int16 api key | int16 api version | int32 correlation id | string client id | tagged fields (v2)
    response  int32 correlation id | tagged fields (v1)

Flexible versions have request header v2 and response header v1; the client id stays a string with an int16
length (-1 for null) in both, so that a broker can read the header of an unknown version.
Source: the protocol guide; KIP-482; KIP-511.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS
from tidelog.plugins.schema.compiled import encoder
from tidelog.plugins.schema.errors import DecodeError, EncodeError, Malformed
from tidelog.plugins.schema.types import skip_tagged_fields, total_size

if TYPE_CHECKING:
    from tidelog.plugins.schema.types import Part

_REQUEST: Final = struct.Struct(">hhih")
_RESPONSE: Final = struct.Struct(">i")
NEVER: Final = 0x8000
FIRST_FLEXIBLE: Final[Mapping[int, int]] = {
    key: NEVER if api.versions.flexible is None else api.versions.flexible for key, api in APIS.items()
}
"""First version whose headers have tagged fields, by API key."""
_SIZE: Final = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """Header of a request; `body_position` is where the body starts in the frame.

    Nothing is known of the body of an API that is not in the table.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def parse_request_header(
    frame: bytes | memoryview, first_flexible: Mapping[int, int] = FIRST_FLEXIBLE
) -> RequestHeader:
    """Return the header at the start of a request (without its size); `first_flexible` is by API key.

    Raises:
        DecodeError: the frame ends too early, or the client id is broken.
    """
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(frame)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            client_id = bytes(frame[10:position]).decode()
        if version >= first_flexible.get(key, NEVER):
            tagged_fields = frame[position]
            position += 1
            if tagged_fields:
                position = skip_tagged_fields(frame, position, tagged_fields, len(frame))
    except (struct.error, IndexError, Malformed, UnicodeDecodeError) as fault:
        raise _broken("RequestHeader", fault) from None
    if length < -1 or position > len(frame):
        raise DecodeError(
            "RequestHeader", version, "client_id", f"a length of {length} in {len(frame)} bytes"
        )
    # Without a Python function in between, as the generated constructor is one.
    return tuple.__new__(  # pyright: ignore[reportUnknownMemberType]
        RequestHeader, (key, version, correlation_id, client_id, position)
    )


def encode_request_header(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    first_flexible: Mapping[int, int] = FIRST_FLEXIBLE,
) -> bytes:
    """Return the encoded header of a request, in the header version of the API's version.

    Raises:
        EncodeError: a number or the client id is too large, or the client id is no text.
        KeyError: `first_flexible` has no such API.
    """
    tagged = b"\0" if api_version >= first_flexible[api_key] else b""
    try:
        text = b"" if client_id is None else client_id.encode()
        length = -1 if client_id is None else len(text)
        return _REQUEST.pack(api_key, api_version, correlation_id, length) + text + tagged
    except (struct.error, UnicodeEncodeError) as fault:
        raise EncodeError("RequestHeader", api_version, "", str(fault)) from None


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """Return the encoded header of a response to a request of that version.

    Raises:
        KeyError: no API here has that key.
    """
    tagged = b"\0" if APIS[api_key].response_header_version(api_version) else b""
    return _RESPONSE.pack(correlation_id) + tagged


def parse_response_header(
    api_key: int,
    api_version: int,
    frame: bytes | memoryview,
    first_flexible: Mapping[int, int] = FIRST_FLEXIBLE,
) -> tuple[int, int]:
    """Return the correlation id of a response (without its size), and where its body starts.

    Raises:
        DecodeError: the frame ends too early.
        KeyError: `first_flexible` has no such API.
    """
    try:
        (correlation_id,) = _RESPONSE.unpack_from(frame)
        position = 4
        if api_version >= first_flexible[api_key] and api_key != API_VERSIONS.key:
            position = skip_tagged_fields(frame, 5, frame[4], len(frame))
    except (struct.error, IndexError, Malformed) as fault:
        raise _broken("ResponseHeader", fault) from None
    return correlation_id, position


def _broken(header: str, fault: Exception) -> DecodeError:
    reason = "it is cut off" if isinstance(fault, struct.error | IndexError) else str(fault)
    return DecodeError(header, 0, "", reason)


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
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    request: object,
    first_flexible: Mapping[int, int] = FIRST_FLEXIBLE,
) -> list[Part]:
    """Return a request's frame as few parts, the first of which is bytes.

    Raises:
        EncodeError: the version cannot carry a value.
        KeyError: `first_flexible` has no such API.
        ValueError: the API has no such version.
    """
    header = encode_request_header(api_key, api_version, correlation_id, client_id, first_flexible)
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
