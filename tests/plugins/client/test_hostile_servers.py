"""Whatever listens at the other end: a clear error, in bounded time and memory, with both drivers."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.deadlines import DEADLINE_S
from tests.plugins.client.driven import (
    IMPATIENT_S,
    QUICK,
    Part,
    after_versions,
    honest,
    saying,
    server,
    settle,
)
from tests.plugins.client.fakes import FakeBroker, metadata_message, response_bytes
from tidelog.plugins.client.errors import (
    BrokerClosed,
    BrokerUnreachable,
    ClientError,
    ProtocolError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest

ASK = MetadataRequest(topics=[])
ANSWER = response_bytes(3, 13, 1, metadata_message({}))
IMPATIENT = attrs.evolve(QUICK, request_timeout_s=IMPATIENT_S, connect_timeout_s=IMPATIENT_S)


async def trickle(stream: trio.SocketStream) -> None:
    """A whole answer announced, a byte every now and then."""
    await stream.send_all(ANSWER[:8])
    while True:
        await trio.sleep(IMPATIENT_S / 5)
        await stream.send_all(b"\0")


AFTER_VERSIONS: dict[str, tuple[Part, type[ClientError], str]] = {
    "garbage": (saying(b"\x7f" * 64), ProtocolError, "Metadata v13: a response of 2139062143 bytes"),
    "an http server": (saying(b"HTTP/1.1 400 Bad\r\n"), ProtocolError, "Metadata v13"),
    "a giant length": (saying(struct.pack(">i", 0x7FFFFFFF)), ProtocolError, "2147483647 bytes is announced"),
    "a length just too large": (
        saying(struct.pack(">i", 4194305)),
        ProtocolError,
        "4 to 4194304 are possible",
    ),
    "a negative length": (saying(struct.pack(">i", -4)), ProtocolError, "-4 bytes is announced"),
    "a wrong correlation id": (
        saying(response_bytes(3, 13, 9, metadata_message({}))),
        ProtocolError,
        "is 9, not 1",
    ),
    "noise for a body": (
        saying(struct.pack(">iib", 60, 1, 0) + b"\xfe" * 55),
        ProtocolError,
        "MetadataResponse",
    ),
    "an end at once": (saying(b"", then_close=True), BrokerClosed, "before it answered Metadata v13"),
    "an end in the length": (saying(ANSWER[:3], then_close=True), BrokerClosed, "before it answered"),
    "an end in the answer": (saying(ANSWER[:-1], then_close=True), BrokerClosed, "before it answered"),
    "silence": (saying(b""), RequestTimedOut, "no answer to Metadata v13 by 127.0.0.1:.* within 0.2 s"),
    "silence in the answer": (saying(ANSWER[:-1]), RequestTimedOut, "no answer to Metadata v13"),
    "a trickle": (trickle, RequestTimedOut, "no answer to Metadata v13"),
}


@pytest.mark.parametrize("case", AFTER_VERSIONS)
async def test_request_raises_the_matching_client_error_for_a_bad_response(connect: Any, case: str) -> None:
    part, kind, words = AFTER_VERSIONS[case]
    settings = IMPATIENT if kind is RequestTimedOut else QUICK
    async with server(after_versions(part)) as address, connect(address, settings) as client:
        with trio.fail_after(DEADLINE_S), pytest.raises(kind, match=words):
            await client.call("request", ASK)


@pytest.mark.parametrize("case", AFTER_VERSIONS)
async def test_client_connection_is_replaced_after_a_bad_response(connect: Any, case: str) -> None:
    part, kind, _ = AFTER_VERSIONS[case]
    settings = IMPATIENT if kind is RequestTimedOut else QUICK
    good = honest(FakeBroker({"Metadata": metadata_message({})}))
    async with server(after_versions(part), good) as address, connect(address, settings) as client:
        with pytest.raises(ClientError):
            await client.call("request", ASK)
        assert (await client.call("request", ASK)).cluster_id == "a-cluster"


AT_ONCE: dict[str, tuple[Part, type[ClientError], str]] = {
    "garbage": (saying(b"\x7f" * 64), ProtocolError, "instead of an answer to ApiVersions v5"),
    "an http server": (
        saying(b"HTTP/1.1 400 Bad\r\n"),
        ProtocolError,
        "instead of an answer to ApiVersions v5",
    ),
    "an ssh server": (
        saying(b"SSH-2.0-OpenSSH_9.6\r\n"),
        ProtocolError,
        "instead of an answer to ApiVersions",
    ),
    # Kafka before 0.10 ends the connection at ApiVersions, so that it is asked for metadata in version 0.
    "an end": (saying(b"", then_close=True), BrokerClosed, "ended before it answered Metadata v0"),
    "silence": (saying(b""), BrokerUnreachable, "no answer"),
}


@pytest.mark.parametrize("case", AT_ONCE)
async def test_connect_raises_a_client_error_for_a_peer_that_is_no_broker(connect: Any, case: str) -> None:
    part, kind, words = AT_ONCE[case]
    settings = IMPATIENT if case == "silence" else QUICK
    async with server(part) as address, connect(address, settings) as client:
        with trio.fail_after(DEADLINE_S), pytest.raises(kind, match=words):
            await client.call("connect")


async def test_nobody_there_is_told_with_every_address(connect: Any) -> None:
    async with connect("127.0.0.1:1,127.0.0.1:2") as client:
        with pytest.raises(
            BrokerUnreachable, match=r"127\.0\.0\.1:1: connection refused; 127\.0\.0\.1:2: connection"
        ) as raised:
            await client.call("connect")
    assert [address.port for address, _ in raised.value.attempts] == [1, 2]


async def test_connect_raises_broker_unreachable_for_an_unknown_host(connect: Any) -> None:
    async with connect("no-such-host.invalid:9092") as client:
        with pytest.raises(BrokerUnreachable, match=r"no-such-host\.invalid:9092: "):
            await client.call("connect")


async def test_request_raises_unsupported_by_broker_without_a_common_version(connect: Any) -> None:
    broker = FakeBroker(ranges={18: (0, 5), 3: (40, 41)})
    async with server(honest(broker)) as address, connect(address) as client:
        with pytest.raises(UnsupportedByBroker, match="versions 40 to 41 of Metadata"):
            await client.call("request", ASK)


async def test_client_connection_with_an_unexpected_response_is_not_used_again(connect: Any) -> None:
    async def twice(stream: trio.SocketStream) -> None:
        await stream.send_all(ANSWER)
        await stream.send_all(ANSWER)
        await trio.sleep_forever()

    good = honest(FakeBroker({"Metadata": metadata_message({})}))
    async with server(after_versions(twice), good) as address, connect(address) as client:
        with suppress(ProtocolError):  # when both came at once, the first is in doubt as well
            await client.call("request", ASK)
        await trio.testing.wait_all_tasks_blocked()
        assert (await client.call("request", ASK)).cluster_id == "a-cluster"


async def test_metadata_raises_request_timed_out_with_the_last_error_after_failed_retries(
    connect: Any,
) -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await settle(stream)

    settings = attrs.evolve(
        QUICK, operation_timeout_s=IMPATIENT_S, retry=attrs.evolve(QUICK.retry, retries=10**6)
    )
    async with server(hang_up) as address, connect(address, settings) as client:
        with (
            trio.fail_after(DEADLINE_S),
            pytest.raises(RequestTimedOut, match="no answer to metadata within") as raised,
        ):
            await client.call("metadata")
    assert isinstance(raised.value.last_error, ClientError)
