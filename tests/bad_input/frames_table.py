"""Bytes that are no request, or not the one they claim to be."""

from __future__ import annotations

import random
import struct
from functools import partial

from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.api_versions import ApiVersionsRequest
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest, MetadataRequestTopic

from . import batches
from .case import CLOSED, KAFKA_STUMBLES, NOTHING_MALFORMED, OK, SILENT, Case, Differs
from .raw import framed
from .raw_client import RawClient, produce
from .requests import CORRELATION_ID, Sent, ask, by_hand, cut, header, lengthened, replaced

MOST = 0x7FFFFFFF
LARGEST_REQUEST = 104_857_600
GARBAGE = b"\x55" + random.Random(4711).randbytes(39)
# A TLS record of type 22 (handshake) with a ClientHello; its first four bytes read as a length of 369 MB.
TLS_HELLO = bytes.fromhex("1603010200010001fc0303") + random.Random(1).randbytes(506)
TOO_LARGE = "a request of {} bytes is announced, socket.request.max.bytes=104857600"
CUT_OFF = "it is cut off"


def _length(length: int, behind: bytes = b"") -> Sent:
    return Sent(struct.pack(">i", length) + behind)


def _goodbye(data: bytes) -> Sent:
    return Sent(data, then_end=True)


def _client(length: int, client: bytes = b"") -> Sent:
    key = apis.API_VERSIONS.key
    return Sent(framed(struct.pack(">hhih", key, 0, CORRELATION_ID, length) + client))


def _tagged(tags: bytes) -> Sent:
    """ApiVersions version 3 with these tagged fields in its header."""
    body = b"\x02a\x02b\x00"
    return Sent(framed(header(apis.API_VERSIONS.key, 3, tags=tags) + body), apis.API_VERSIONS, 3)


def _metadata(version: int, client: RawClient) -> Sent:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=client.topic)])
    return ask(apis.METADATA, version, request)


def _produce(client: RawClient) -> Sent:
    return ask(apis.PRODUCE, 8, produce(client.topic, batches.batch()))


def _records_length(length: int, client: RawClient) -> Sent:
    content = b"0123456789abcdef"
    sent = ask(apis.PRODUCE, 8, produce(client.topic, content))
    return replaced(sent, struct.pack(">i", len(content)) + content, struct.pack(">i", length) + content)


def _software(name: str) -> Sent:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    return ask(apis.API_VERSIONS, 3, request)


def _of_a_zookeeper_cluster(key: int, _: RawClient) -> Sent:
    return _unknown(key, 1)


def _unknown(key: int, version: int) -> Sent:
    return Sent(framed(header(key, version)))


FRAMES = (
    Case("garbage in a frame", lambda _: Sent(framed(GARBAGE)), CLOSED, log="request header cannot be read"),
    Case("a frame of 2 GB", lambda _: _length(MOST, GARBAGE), CLOSED, log=TOO_LARGE.format(MOST)),
    Case(
        "a frame that is a byte too large",
        lambda _: _length(LARGEST_REQUEST + 1),
        CLOSED,
        log=TOO_LARGE.format(LARGEST_REQUEST + 1),
    ),
    Case("the largest frame, only announced", lambda _: _length(LARGEST_REQUEST), SILENT),
    Case("a negative length", lambda _: _length(-1, GARBAGE), CLOSED, log=TOO_LARGE.format(-1)),
    Case("the lowest length", lambda _: _length(-MOST - 1), CLOSED, log=TOO_LARGE.format(-MOST - 1)),
    Case("an empty frame", lambda _: Sent(framed(b"")), CLOSED, log=CUT_OFF),
    Case("a TLS hello", lambda _: Sent(TLS_HELLO), CLOSED, log="looks like TLS"),
    Case(
        "an HTTP request",
        lambda _: Sent(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
        CLOSED,
        log="looks like HTTP",
    ),
    Case("half a frame, then silence", lambda _: _length(100, GARBAGE), SILENT),
)

# The client ends these connections: there is nothing to complain about.
GOODBYES = (
    Case("half a frame, then the end", lambda _: _goodbye(struct.pack(">i", 100) + GARBAGE), CLOSED),
    Case("half a length, then the end", lambda _: _goodbye(b"\0\0"), CLOSED),
    Case("nothing, then the end", lambda _: _goodbye(b""), CLOSED),
)

HEADERS = (
    Case("a frame of one byte", lambda _: Sent(framed(b"\0")), CLOSED, log=CUT_OFF),
    Case("half a header", lambda _: Sent(framed(b"\0\x12\0\0\0\0")), CLOSED, log=CUT_OFF),
    Case("an API that is not there", lambda _: _unknown(999, 0), CLOSED, log="API key 999 is not served"),
    *(
        Case(
            f"{name}, which controllers and brokers of a ZooKeeper cluster exchange",
            partial(_of_a_zookeeper_cluster, key),
            CLOSED,
            log=rf"API key {key} \({name}\) is not served here: .*ZooKeeper",
        )
        for key, name in (
            (4, "LeaderAndIsr"),
            (5, "StopReplica"),
            (6, "UpdateMetadata"),
            (7, "ControlledShutdown"),
        )
    ),
    Case("a negative API key", lambda _: _unknown(-1, 0), CLOSED, log="API key -1 is not served"),
    Case("Metadata in version 99", lambda _: _unknown(3, 99), CLOSED, log="version 99 of Metadata is not"),
    Case("Metadata in version -1", lambda _: _unknown(3, -1), CLOSED, log="version -1 of Metadata is not"),
    Case("Produce in version 99", lambda _: _unknown(0, 99), CLOSED, log="version 99 of Produce is not"),
    Case("Fetch in version 99", lambda _: _unknown(1, 99), CLOSED, log="version 99 of Fetch is not"),
    Case("ApiVersions in version 99", lambda _: by_hand(apis.API_VERSIONS, 99, b""), "UNSUPPORTED_VERSION"),
    Case(
        "ApiVersions in version 99 with a body of it",
        lambda _: by_hand(apis.API_VERSIONS, 99, GARBAGE),
        "UNSUPPORTED_VERSION",
    ),
    Case("ApiVersions in version -1", lambda _: by_hand(apis.API_VERSIONS, -1, b""), "UNSUPPORTED_VERSION"),
    Case("no client id", lambda _: _client(-1), OK),
    Case("an empty client id", lambda _: _client(0), OK),
    Case(
        "a client id of length -2",
        lambda _: _client(-2),
        OK,
        log="client_id: a length of -2",
        tidelog=Differs(CLOSED, NOTHING_MALFORMED),
    ),
    Case("a client id longer than the frame", lambda _: _client(100, b"abc"), CLOSED, log="a length of 100"),
    Case(
        "a client id that is no UTF-8",
        lambda _: _client(2, b"\xc3\x28"),
        OK,
        log="can't decode|not UTF-8",
        tidelog=Differs(CLOSED, NOTHING_MALFORMED),
    ),
    Case("no tagged fields in a flexible header", lambda _: _tagged(b""), CLOSED, log="malformed|cut off"),
    Case("unknown tagged fields in the header", lambda _: _tagged(b"\x01\x63\x02hi"), OK),
    Case("the same tagged field twice", lambda _: _tagged(b"\x02\x63\x01a\x63\x01b"), OK),
    Case(
        "a tagged field longer than the frame",
        lambda _: _tagged(b"\x01\x63\x7fhi"),
        CLOSED,
        log="request header cannot be read",
    ),
    Case(
        "2^31 tagged fields",
        lambda _: _tagged(b"\xff\xff\xff\xff\x07"),
        CLOSED,
        log="request header cannot be read",
    ),
)

LENGTHS = (
    Case("a request without its body", lambda _: by_hand(apis.METADATA, 1, b""), CLOSED, log="malformed"),
    Case("a request cut in a name", lambda s: cut(_metadata(1, s), 3), CLOSED, log="malformed"),
    Case(
        "a flexible request without its last byte", lambda s: cut(_metadata(9, s), 1), CLOSED, log="malformed"
    ),
    Case(
        "a produce request cut in its batch", lambda s: cut(_produce(s), 20), CLOSED, log="bytes are needed"
    ),
    Case("bytes behind a request", lambda s: lengthened(_metadata(1, s), b"abc"), OK),
    Case("bytes behind a flexible request", lambda s: lengthened(_metadata(9, s), b"abc"), OK),
    Case("bytes behind a produce request", lambda s: lengthened(_produce(s), b"abc"), OK, appends=1),
    Case(
        "records of 2^31-1 bytes",
        lambda s: _records_length(MOST, s),
        CLOSED,
        log="2147483647 bytes are needed",
    ),
    Case(
        "records of -2 bytes",
        lambda s: _records_length(-2, s),
        SILENT,
        log="a negative length, -2",
        tidelog=Differs(CLOSED, KAFKA_STUMBLES),
    ),
    Case(
        "a varint of ten bytes",
        lambda _: by_hand(apis.METADATA, 9, b"\xff" * 9 + b"\x01"),
        CLOSED,
        log="varint",
    ),
)

NULL_TOPICS = struct.pack(">hhii", -1, -1, 1000, -1)
MANY_TOPICS = struct.pack(">hhii", -1, -1, 1000, MOST)
VALUES = (
    Case("null for a name", lambda _: by_hand(apis.METADATA, 1, b"\0\0\0\1\xff\xff"), CLOSED, log="null"),
    Case(
        "null for a name, flexible",
        lambda _: by_hand(apis.METADATA, 9, b"\2\0\0\1\0\0\0"),
        CLOSED,
        log="null",
    ),
    Case("null for an array", lambda _: by_hand(apis.METADATA, 0, b"\xff" * 4), CLOSED, log="null"),
    Case(
        "null for topics to produce to", lambda _: by_hand(apis.PRODUCE, 3, NULL_TOPICS), CLOSED, log="null"
    ),
    Case(
        "null for topics to produce to, flexible",
        lambda _: by_hand(apis.PRODUCE, 9, b"\0" + struct.pack(">hi", -1, 1000) + b"\0\0"),
        CLOSED,
        log="null",
    ),
    Case(
        "an array of 2^31-1",
        lambda _: by_hand(apis.METADATA, 1, struct.pack(">i", MOST)),
        CLOSED,
        log="elements",
    ),
    Case(
        "an array of 2^31-1, flexible",
        lambda _: by_hand(apis.METADATA, 9, b"\xff\xff\xff\xff\x07\0"),
        CLOSED,
        log="elements",
    ),
    Case(
        "an array of 2^32-1, flexible",
        lambda _: by_hand(apis.METADATA, 9, b"\xff\xff\xff\xff\x0f\0"),
        CLOSED,
        log="elements",
    ),
    Case(
        "an array of 2^31-1 topics to produce to",
        lambda _: by_hand(apis.PRODUCE, 3, MANY_TOPICS),
        CLOSED,
        log="elements",
    ),
    Case(
        "a name that is no UTF-8",
        lambda _: by_hand(apis.METADATA, 1, b"\0\0\0\1\0\2\xc3\x28"),
        "INVALID_TOPIC_EXCEPTION",
        log="not UTF-8",
        tidelog=Differs(CLOSED, NOTHING_MALFORMED),
    ),
    Case(
        "a name of 40,000 bytes",
        lambda _: by_hand(apis.METADATA, 9, b"\2\xc1\xb8\2" + b"a" * 40_000 + bytes(5)),
        CLOSED,
        log="a string of 40000 bytes",
    ),
    Case(
        "unknown tagged fields in the body",
        lambda _: by_hand(apis.API_VERSIONS, 3, b"\2a\2b\1\x63\2hi"),
        OK,
    ),
    Case(
        "a tagged field whose size is not its content's",
        lambda _: by_hand(
            apis.FETCH, 12, struct.pack(">iiiibii", -1, 0, 0, 0, 0, 0, -1) + b"\1\1\1\1\0\4ab\0"
        ),
        CLOSED,
        log="malformed",
    ),
    Case("software without a name", lambda _: _software(""), "INVALID_REQUEST"),
    Case("software with a name of odd characters", lambda _: _software("a b\n"), "INVALID_REQUEST"),
)

CASES = (*FRAMES, *GOODBYES, *HEADERS, *LENGTHS, *VALUES)
