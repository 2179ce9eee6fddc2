"""Whole frames: what a peer would receive."""

from __future__ import annotations

from tidelog.kernel.seams.storage import FileRegion, LogSlice
from tidelog.kernel.seams.wire import StreamedBytes
from tidelog.plugins.protocol_kafka.messages.api import API_VERSIONS, FETCH
from tidelog.plugins.protocol_kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from tidelog.plugins.protocol_kafka.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.plugins.protocol_kafka.messages.header import (
    encode_request,
    encode_response,
    parse_request_header,
    parse_response_header,
)
from tidelog.plugins.schema import decode
from tidelog.plugins.schema.types import COPIED_BYTES


class File:
    """An open file of which nothing is asked: encoding must not read."""

    def fileno(self) -> int:
        raise AssertionError

    def resident(self, position: int, size: int) -> bool:
        raise AssertionError

    def report_error(self, error: OSError) -> None:
        """Ignore it."""

    def prefetch(self, position: int, size: int) -> None:
        raise AssertionError


def bytes_of(part: object) -> bytes:
    """The part, which has to be bytes."""
    assert isinstance(part, bytes)
    return part


def test_encode_request_returns_one_part() -> None:
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
    (frame,) = map(bytes_of, encode_request(API_VERSIONS.key, 3, 7, "me", request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = parse_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (18, 3, 7, "me")
    assert decode(ApiVersionsRequest, 3, frame[4 + header.body_position :]) == request


def test_encode_request_without_body_returns_one_part() -> None:
    assert encode_request(API_VERSIONS.key, 0, 7, None, ApiVersionsRequest()) == [
        bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    ]


def test_encode_response_returns_one_part() -> None:
    response = ApiVersionsResponse(
        error_code=0, api_keys=[ApiVersion(api_key=0, min_version=0, max_version=13)]
    )
    (frame,) = map(bytes_of, encode_response(API_VERSIONS.key, 0, 7, response))
    assert frame == bytes.fromhex("00000010 00000007 0000 00000001 0000 0000 000d")
    correlation_id, position = parse_response_header(API_VERSIONS.key, 0, frame[4:])
    assert correlation_id == 7
    assert decode(ApiVersionsResponse, 0, frame[4 + position :]) == response


def fetched(*slices: LogSlice | bytes | None) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, error_code=0, high_watermark=9, records=records)
        for index, records in enumerate(slices)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


def test_encode_response_keeps_file_regions_as_parts() -> None:
    first, second = FileRegion(File(), 0, 1000), FileRegion(File(), 5000, 2000)
    response = fetched(LogSlice([first, second], 3000), None, LogSlice([second], 2000), LogSlice([], 0))
    parts = encode_response(FETCH.key, 12, 7, response)
    assert [part for part in parts if isinstance(part, FileRegion)] == [first, second, second]

    received = b"".join(
        bytes(part.size) if isinstance(part, FileRegion | StreamedBytes) else part for part in parts
    )
    assert int.from_bytes(received[:4], "big") == len(received) - 4
    _, position = parse_response_header(FETCH.key, 12, received[4:])
    decoded = decode(FetchResponse, 12, received[4 + position :])
    assert [data.records for data in decoded.responses[0].partitions] == [bytes(3000), None, bytes(2000), b""]


def test_encode_response_copies_short_records_but_not_long_ones() -> None:
    short, long = bytes(COPIED_BYTES), bytes(COPIED_BYTES + 1)
    assert len(encode_response(FETCH.key, 4, 7, fetched(short, None, short))) == 1
    _, body, _ = encode_response(FETCH.key, 4, 7, fetched(short, long, None))
    assert body is long
