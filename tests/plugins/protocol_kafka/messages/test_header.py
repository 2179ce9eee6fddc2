"""Headers of requests and responses, byte by byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import for_each
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, APIS, FETCH, METADATA, PRODUCE
from tidelog.plugins.protocol_kafka.messages.header import (
    RequestHeader,
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)
from tidelog.plugins.schema import DecodeError, EncodeError

UNKNOWN_API = 999

REQUEST_HEADERS = [
    pytest.param("0003 0001 00000007 0003 6b6361", RequestHeader(3, 1, 7, "kca", 13), id="v1"),
    pytest.param("0003 0001 00000007 ffff", RequestHeader(3, 1, 7, None, 10), id="v1 without client id"),
    pytest.param("0003 0001 00000007 0000", RequestHeader(3, 1, 7, "", 10), id="v1 with an empty client id"),
    pytest.param("0003 0009 ffffffff 0003 6b6361 00", RequestHeader(3, 9, -1, "kca", 14), id="v2"),
    pytest.param("0003 0009 00000007 ffff 00", RequestHeader(3, 9, 7, None, 11), id="v2 without client id"),
    pytest.param(
        "0003 0009 00000007 ffff 02 00 03 616263 8501 00", RequestHeader(3, 9, 7, None, 19), id="v2 with tags"
    ),
    pytest.param("0012 0063 00000007 ffff 00", RequestHeader(18, 99, 7, None, 11), id="version to come"),
    pytest.param("03e7 0009 00000007 0001 61", RequestHeader(UNKNOWN_API, 9, 7, "a", 11), id="unknown API"),
]


@for_each(("written", "header"), REQUEST_HEADERS)
@for_each("body", [b"", b"body"])
def test_request_headers_are_read(written: str, header: RequestHeader, body: bytes) -> None:
    frame = bytes.fromhex(written) + body
    assert parse_request_header(frame) == header
    assert parse_request_header(memoryview(bytearray(frame))) == header


@for_each(("written", "header"), [case for case in REQUEST_HEADERS if "tags" not in str(case.id)])
def test_request_headers_are_written(written: str, header: RequestHeader) -> None:
    if header.api_key == UNKNOWN_API:
        with pytest.raises(KeyError):
            encode_request_header(header.api_key, header.api_version, 7, None)
        return
    encoded = encode_request_header(
        header.api_key, header.api_version, header.correlation_id, header.client_id
    )
    assert encoded == bytes.fromhex(written)


@for_each("written", [case.values[0] for case in REQUEST_HEADERS])
def test_a_truncated_request_header_is_refused(written: str) -> None:
    whole = bytes.fromhex(written)
    for size in range(len(whole)):
        with pytest.raises(DecodeError, match="RequestHeader"):
            parse_request_header(whole[:size])


@pytest.mark.parametrize(
    "written",
    [
        pytest.param("0003 0001 00000007 fffe", id="negative length"),
        pytest.param("0003 0001 00000007 7fff 61", id="length beyond the frame"),
        pytest.param("0003 0001 00000007 0001 ff", id="not UTF-8"),
        pytest.param("0003 0009 00000007 ffff 01 00 7f", id="tag beyond the frame"),
        pytest.param("0003 0009 00000007 ffff ffffffffff7f", id="varint without end"),
    ],
)
def test_a_broken_request_header_is_refused(written: str) -> None:
    with pytest.raises(DecodeError, match="RequestHeader"):
        parse_request_header(bytes.fromhex(written))


@given(frame=st.binary(max_size=40))
def test_random_bytes_give_a_header_within_them_or_an_error(frame: bytes) -> None:
    try:
        header = parse_request_header(frame)
    except DecodeError:
        return
    assert 10 <= header.body_position <= len(frame)


@pytest.mark.parametrize(
    ("key", "version", "correlation_id", "client_id"),
    [(3, 1, 1 << 31, None), (3, 1, 7, "x" * 40000), (3, 1, 7, "\ud800")],
)
def test_a_request_header_that_cannot_be_written(
    key: int, version: int, correlation_id: int, client_id: str | None
) -> None:
    with pytest.raises(EncodeError, match="RequestHeader"):
        encode_request_header(key, version, correlation_id, client_id)


@for_each(
    ("api", "version", "written"),
    [
        (PRODUCE, 8, "0000002a"),
        (PRODUCE, 9, "0000002a 00"),
        (FETCH, 11, "0000002a"),
        (FETCH, 12, "0000002a 00"),
        (METADATA, 0, "0000002a"),
        (API_VERSIONS, 2, "0000002a"),
        (API_VERSIONS, 3, "0000002a"),
        (API_VERSIONS, 5, "0000002a"),
    ],
)
def test_response_headers(api: object, version: int, written: str) -> None:
    (key,) = (key for key, entry in APIS.items() if entry is api)
    encoded = bytes.fromhex(written)
    assert encode_response_header(key, version, 42) == encoded
    assert parse_response_header(key, version, encoded + b"body") == (42, len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(DecodeError, match="ResponseHeader"):
            parse_response_header(key, version, encoded[:size])


def test_unknown_tags_of_a_response_header_are_skipped() -> None:
    assert parse_response_header(PRODUCE.key, 9, bytes.fromhex("0000002a 01 05 02 aabb")) == (42, 9)
