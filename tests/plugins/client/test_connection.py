"""The protocol of one connection, without a socket: negotiation, order, framing at every split, bad peers."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.client.fakes import (
    ALL_VERSIONS,
    FakeBroker,
    drain,
    metadata_message,
    ranges_message,
    response_bytes,
    settle,
    split_frames,
)
from tests.tables import for_each
from tidelog.plugins.client.connection import ClientConnection
from tidelog.plugins.client.errors import (
    BrokerClosed,
    ClientError,
    ErrorResponse,
    ProtocolError,
    UnsendableRequest,
    UnsupportedByBroker,
)
from tidelog.plugins.client.requests import ByVersion
from tidelog.plugins.protocol_kafka.messages.api import (
    API_VERSIONS,
    DELETE_TOPICS,
    FETCH,
    INIT_PRODUCER_ID,
    METADATA,
)
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tidelog.plugins.protocol_kafka.messages.header import parse_request_header
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.protocol_kafka.messages.produce import ProduceRequest

NEWEST = API_VERSIONS.newest_stable
FETCH_REQUEST = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])


def ready_connection(ranges: dict[int, tuple[int, int]] | None = None, **options: Any) -> ClientConnection:
    connection = ClientConnection("broker:9092", **options)
    settle(connection, FakeBroker(ranges=ranges or ALL_VERSIONS))
    return connection


def sent_headers(connection: ClientConnection) -> list[tuple[int, int, int]]:
    headers = map(parse_request_header, split_frames(drain(connection)))
    return [(header.api_key, header.api_version, header.correlation_id) for header in headers]


def fetch_message(records: bytes) -> FetchResponse:
    part = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part])])


def test_the_first_request_asks_for_versions_in_the_newest_version_and_says_who_we_are() -> None:
    connection = ClientConnection("broker:9092", client_id="me")
    (frame,) = split_frames(drain(connection))
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version, header.client_id) == (18, NEWEST, "me")
    assert b"tidelog" in frame
    assert not connection.ready


@pytest.mark.parametrize(
    ("served", "asked"),
    [((0, NEWEST), [NEWEST]), ((0, 3), [NEWEST, 3]), ((0, 0), [NEWEST, 0]), ((0, NEWEST + 4), [NEWEST])],
)
def test_api_versions_is_retried_in_the_newest_version_that_the_broker_serves(
    served: tuple[int, int], asked: list[int]
) -> None:
    connection, broker = ClientConnection("b:1"), FakeBroker(ranges={**ALL_VERSIONS, 18: served})
    versions: list[int] = []
    while not connection.ready:
        data = drain(connection)
        versions += [parse_request_header(frame).api_version for frame in split_frames(data)]
        connection.receive_data(broker.receive(data))
        connection.next_response()
    assert versions == asked


def test_api_versions_is_retried_in_version_0_when_the_broker_gives_no_range() -> None:
    connection = ClientConnection("b:1")
    drain(connection)
    connection.receive_data(response_bytes(18, 0, 0, ranges_message({}, ErrorCode.UNSUPPORTED_VERSION)))
    connection.next_response()
    assert sent_headers(connection) == [(18, 0, 1)]


def test_api_versions_refused_in_every_version_fails_the_connection() -> None:
    connection = ClientConnection("b:1")
    refusal = ranges_message({18: (0, 99)}, ErrorCode.UNSUPPORTED_VERSION)
    for correlation_id in range(NEWEST):
        connection.receive_data(response_bytes(18, 0, correlation_id, refusal))
        connection.next_response()
    connection.receive_data(response_bytes(18, 0, NEWEST, refusal))
    with pytest.raises(ErrorResponse, match="ApiVersions v0 of b:1: UNSUPPORTED_VERSION"):
        connection.next_response()
    assert isinstance(connection.failure, ErrorResponse)


@pytest.mark.parametrize(
    ("theirs", "at_most", "version"),
    [((0, 13), None, 13), ((0, 9), None, 9), ((5, 99), None, 13), ((0, 13), 4, 4), ((0, 2), 4, 2)],
)
def test_send_uses_the_newest_common_version(
    theirs: tuple[int, int], at_most: int | None, version: int
) -> None:
    connection = ready_connection({18: (0, 5), 3: theirs})
    connection.send(MetadataRequest(topics=[]), at_most=at_most)
    ((_, sent, _),) = sent_headers(connection)
    assert sent == version


def test_versions_newest_skips_versions_that_kafka_marks_unstable() -> None:
    connection = ready_connection({**ALL_VERSIONS, 22: (0, 9)})
    assert connection.versions.newest(INIT_PRODUCER_ID) == INIT_PRODUCER_ID.newest_stable < 9


def test_without_a_common_version_nothing_is_sent_and_the_connection_goes_on() -> None:
    connection = ready_connection({18: (0, 5), 1: (0, 18), 3: (90, 99)})
    with pytest.raises(UnsupportedByBroker, match="versions 90 to 99 of Metadata, and we speak 0 to 13"):
        connection.send(FETCH_REQUEST, MetadataRequest(topics=[]))
    with pytest.raises(UnsupportedByBroker, match="serves no version of Produce"):
        connection.send(ProduceRequest(acks=1, timeout_ms=0, topic_data=[]))
    assert drain(connection) == b""
    assert connection.ready


def test_a_value_that_the_version_cannot_carry_is_told_and_the_connection_goes_on() -> None:
    connection = ready_connection()
    with pytest.raises(UnsendableRequest, match="allow_auto_topic_creation"):
        connection.send(MetadataRequest(topics=[], allow_auto_topic_creation=False), at_most=3)
    assert drain(connection) == b""
    assert connection.ready


@pytest.mark.parametrize(("at_most", "names"), [(None, []), (5, ["a"])])
def test_send_builds_a_by_version_request_for_the_negotiated_version(
    at_most: int | None, names: list[str]
) -> None:
    def build(version: int) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topic_names=["a"] if version < 6 else [], timeout_ms=version)

    connection, broker = ready_connection(), FakeBroker({"DeleteTopics": DeleteTopicsResponse(responses=[])})
    connection.send(ByVersion(DELETE_TOPICS, build), at_most=at_most)
    broker.receive(drain(connection))
    assert broker.asked[0].message.topic_names == names


def test_send_refuses_a_message_that_is_no_request() -> None:
    with pytest.raises(
        TypeError, match=r"FetchResponse is no request of Kafka's; .* request\(\.\.\., api=\.\.\.\)"
    ):
        ready_connection().send(fetch_message(b""))


def test_next_response_keeps_the_order_and_correlation_ids_of_the_requests() -> None:
    connection = ready_connection()
    first, second, third = connection.send(FETCH_REQUEST, MetadataRequest(topics=[]), FETCH_REQUEST)
    broker = FakeBroker({"Fetch": fetch_message(b"abc"), "Metadata": metadata_message({})})
    connection.receive_data(broker.receive(drain(connection)))
    answers = [connection.next_response() for _ in range(3)]
    assert [answer and (answer.correlation_id, answer.api) for answer in answers] == [
        (first, FETCH),
        (second, METADATA),
        (third, FETCH),
    ]
    assert connection.next_response() is None
    assert connection.in_flight == 0


def test_send_of_produce_with_acks_0_expects_no_response() -> None:
    connection = ready_connection()
    unanswered = ProduceRequest(acks=0, timeout_ms=0, topic_data=[])
    none, number = connection.send(unanswered, MetadataRequest(topics=[]))
    assert none is None
    broker = FakeBroker({"Metadata": metadata_message({})})
    *_, last = split_frames(drain(connection))
    connection.receive_data(broker.receive(struct.pack(">i", len(last)) + last))
    answer = connection.next_response()
    assert answer is not None
    assert answer.correlation_id == number


def test_requests_need_settled_versions() -> None:
    with pytest.raises(RuntimeError, match="not negotiated"):
        ClientConnection("b:1").send(FETCH_REQUEST)


CONVERSATION = (
    response_bytes(18, 0, 0, ranges_message({18: (0, 3)}, ErrorCode.UNSUPPORTED_VERSION)),
    response_bytes(18, 3, 1, ranges_message(ALL_VERSIONS)),
    response_bytes(3, 13, 2, metadata_message({"orders": [1, 1]})),
    response_bytes(1, 18, 3, fetch_message(bytes(300))),
)


def converse(pieces: list[bytes]) -> list[Any]:
    """The messages of a conversation that comes in these pieces."""
    connection = ClientConnection("b:1")
    messages: list[Any] = []
    asked = False
    for piece in pieces:
        connection.receive_data(piece)
        while (response := connection.next_response()) is not None:
            messages.append(response.message)
        if connection.ready and not asked:
            connection.send(MetadataRequest(topics=None), FETCH_REQUEST)
            asked = True
    return messages


WHOLE = converse(list(CONVERSATION))


def split_answers(*cuts: int) -> list[bytes]:
    """The last two answers cut at these places; what comes before them settles the versions."""
    answers = CONVERSATION[2] + CONVERSATION[3]
    bounds = [0, *cuts, len(answers)]
    pieces = [answers[start:end] for start, end in pairwise(bounds)]
    return [CONVERSATION[0], CONVERSATION[1], *filter(None, pieces)]


@for_each("cut", range(1, len(CONVERSATION[2] + CONVERSATION[3])))
def test_receive_data_decodes_responses_cut_at_any_byte(cut: int) -> None:
    assert converse(split_answers(cut)) == WHOLE


def test_receive_data_negotiates_versions_cut_at_any_byte() -> None:
    opening = CONVERSATION[0] + CONVERSATION[1]
    for cut in range(1, len(opening)):
        assert converse([opening[:cut], opening[cut:], *CONVERSATION[2:]]) == WHOLE


def test_receive_data_decodes_responses_received_byte_by_byte() -> None:
    assert converse([bytes([byte]) for byte in b"".join(CONVERSATION)]) == WHOLE


@given(st.lists(st.integers(1, len(CONVERSATION[2] + CONVERSATION[3]) - 1), max_size=6).map(sorted))
def test_receive_data_decodes_responses_received_in_any_pieces(cuts: list[int]) -> None:
    assert converse(split_answers(*cuts)) == WHOLE


@for_each("size", [10, 70_000, 1_048_576, 3_000_000])
@for_each("chunk", [1000, 65_536, 700_000])
def test_receive_data_assembles_a_large_response_from_chunks_of_any_size(size: int, chunk: int) -> None:
    connection = ready_connection()
    connection.send(FETCH_REQUEST, MetadataRequest(topics=[]))
    records = bytes(range(256)) * (size // 256 + 1)
    data = response_bytes(1, 18, 1, fetch_message(records)) + response_bytes(3, 13, 2, metadata_message({}))
    for start in range(0, len(data), chunk):
        connection.receive_data(data[start : start + chunk])
    fetched, after = connection.next_response(), connection.next_response()
    assert fetched is not None
    assert after is not None
    assert fetched.message.responses[0].partitions[0].records == records
    assert after.api is METADATA


def test_receive_data_keeps_records_of_an_earlier_response_unchanged() -> None:
    connection = ready_connection()
    connection.send(FETCH_REQUEST, FETCH_REQUEST)
    connection.receive_data(response_bytes(1, 18, 1, fetch_message(b"first")))
    first = connection.next_response()
    connection.receive_data(response_bytes(1, 18, 2, fetch_message(b"other")))
    assert first is not None
    assert first.message.responses[0].partitions[0].records == b"first"


def test_a_length_alone_takes_little_memory() -> None:
    connection = ready_connection()
    connection.send(FETCH_REQUEST)
    connection.receive_data(struct.pack(">i", 100 * 1024 * 1024))
    assert len(connection.receive_buffer()) <= 1024 * 1024


BAD_BYTES = {
    "a length beyond the limit": (
        struct.pack(">i", 0x7FFFFFFF),
        "a response of 2147483647 bytes is announced",
    ),
    "a length just beyond the limit": (struct.pack(">i", 1001), "1001 bytes is announced, 4 to 1000 are"),
    "a negative length": (struct.pack(">i", -1), "a response of -1 bytes is announced"),
    "no room for a correlation id": (struct.pack(">ihb", 3, 0, 0), "a response of 3 bytes is announced"),
    "an http server": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a response of 1213486160 bytes is announced"),
    "a wrong correlation id": (struct.pack(">iib", 5, 7, 0), "its correlation id is 7, not 1"),
    "a body that ends early": (struct.pack(">ii", 4, 1), "ResponseHeader"),
    "noise in the body": (struct.pack(">ii", 30, 1) + b"\x00" + b"\xff" * 25, "MetadataResponse v13"),
}


@for_each("case", BAD_BYTES)
def test_what_is_no_answer_is_a_protocol_error_that_names_api_and_version(case: str) -> None:
    data, reason = BAD_BYTES[case]
    connection = ready_connection(max_response_bytes=1000)
    connection.send(MetadataRequest(topics=[]))
    connection.receive_data(data)
    with pytest.raises(ProtocolError, match=reason) as raised:
        connection.next_response()
    assert (raised.value.peer, raised.value.api, raised.value.version) == ("broker:9092", "Metadata", 13)
    assert not raised.value.retriable
    assert connection.failure is raised.value
    with pytest.raises(ProtocolError):
        connection.send(MetadataRequest(topics=[]))


def test_bytes_behind_an_answer_are_a_protocol_error() -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]))
    whole = response_bytes(3, 13, 1, metadata_message({}))
    connection.receive_data(struct.pack(">i", len(whole) - 4 + 1) + whole[4:] + b"!")
    with pytest.raises(ProtocolError, match="1 bytes are left behind the message"):
        connection.next_response()


def test_an_answer_that_nobody_asked_for_is_a_protocol_error() -> None:
    connection = ready_connection()
    connection.receive_data(struct.pack(">ii", 4, 9))
    with pytest.raises(ProtocolError, match="sent something without a request") as raised:
        connection.next_response()
    assert (raised.value.api, raised.value.version) == ("", -1)


def test_next_response_returns_responses_before_a_protocol_error() -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]), FETCH_REQUEST)
    connection.receive_data(response_bytes(3, 13, 1, metadata_message({})) + struct.pack(">i", -5))
    assert connection.next_response() is not None
    with pytest.raises(ProtocolError, match="Fetch v18"):
        connection.next_response()


@for_each("cut", [0, 1, 3, 4, 7, 20])
def test_next_response_raises_broker_closed_with_the_unanswered_request(cut: int) -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]), FETCH_REQUEST)
    if cut:
        connection.receive_data(response_bytes(3, 13, 1, metadata_message({}))[:cut])
    connection.receive_data(b"")
    with pytest.raises(BrokerClosed, match="before it answered Metadata v13: the broker closed it") as raised:
        connection.next_response()
    assert raised.value.retriable
    assert drain(connection) == b""


def test_a_broker_that_closes_before_any_answer_is_perhaps_asked_by_the_wrong_protocol() -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]))
    connection.receive_data(b"")
    with pytest.raises(
        BrokerClosed, match="without an answer: does its listener have another security_protocol"
    ):
        connection.next_response()
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]))
    connection.receive_data(bytes.fromhex("15 03 03 00 02 02 50"))
    with pytest.raises(ProtocolError, match="it looks like TLS: set security_protocol to SSL or SASL_SSL"):
        connection.next_response()


def test_a_lost_connection_keeps_its_first_reason() -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]))
    connection.connection_lost("connection reset by peer")
    connection.connection_lost("something later")
    connection.receive_data(b"whatever")
    with pytest.raises(BrokerClosed, match="connection reset by peer"):
        connection.next_response()


def test_outgoing_bytes_sent_in_pieces_arrive_complete() -> None:
    connection = ready_connection()
    connection.send(*[MetadataRequest(topics=[]) for _ in range(100)])
    sent = b""
    while parts := connection.outgoing():
        piece = b"".join(parts)[:7]
        connection.bytes_sent(len(piece))
        sent += piece
    assert [parse_request_header(frame).correlation_id for frame in split_frames(sent)] == list(range(1, 101))


@given(st.binary(max_size=200))
def test_next_response_raises_only_client_errors_for_any_bytes(noise: bytes) -> None:
    connection = ready_connection()
    connection.send(MetadataRequest(topics=[]), FETCH_REQUEST)
    connection.receive_data(noise)
    try:
        while connection.next_response() is not None:
            pass
    except ClientError:
        assert connection.failure is not None
