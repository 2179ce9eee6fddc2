"""APIs that other plugins add: what is refused, and how they are routed."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

import pytest

from tidelog.kernel.errors import PluginError
from tidelog.kernel.seams.wire import Parts, Peer, ProtocolViolation
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis import KafkaApi, RequestContext, checked_apis
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.client_telemetry import ClientTelemetry
from tidelog.plugins.protocol_kafka.connection import KafkaConnection, fetch_session_cache
from tidelog.plugins.protocol_kafka.messages.header import encode_request
from tidelog.plugins.protocol_kafka.routes import NO_TAGGED_FIELDS, Routes
from tidelog.plugins.schema.declare import VersionSpan, array, int16, int32, struct

PEER = Peer("127.0.0.1", 4711, "PLAINTEXT")


@struct(VersionSpan(1, 2, flexible=2))
class EchoRequest:
    number: int = int32()


@struct(VersionSpan(1, 2, flexible=2))
class EchoResponse:
    error_code: int = int16()
    number: int = int32()


@struct(VersionSpan(1, 2, flexible=2))
class ManyResponse:
    echoes: list[EchoResponse] = array(EchoResponse)


@struct(VersionSpan(0, 2, flexible=2))
class OtherResponse:
    error_code: int = int16()


def handle(context: RequestContext, request: EchoRequest) -> EchoResponse:
    return EchoResponse(error_code=0, number=request.number)


def echo(key: int = 20_000) -> KafkaApi:
    return KafkaApi(key, "Echo", EchoRequest, EchoResponse, handle)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (-1, "API key -1 is not between 0 and 32767"),
        (2**15, "API key 32768 is not between 0 and 32767"),
    ],
)
def test_checked_apis_refuses_a_key_that_no_api_can_have(key: int, message: str) -> None:
    with pytest.raises(PluginError, match=message):
        checked_apis([("one", [echo(key)])])


def test_checked_apis_refuses_messages_of_different_versions() -> None:
    api = KafkaApi(20_000, "Echo", EchoRequest, OtherResponse, handle)
    with pytest.raises(PluginError, match="the request and the response of Echo have different versions"):
        checked_apis([("one", [api])])


def test_checked_apis_refuses_a_class_that_is_no_message() -> None:
    with pytest.raises(PluginError, match="int is not a message"):
        checked_apis([("one", [KafkaApi(20_000, "Echo", int, EchoResponse, handle)])])


def test_checked_apis_refuses_messages_by_name_without_their_versions() -> None:
    api = KafkaApi(20_000, "Echo", f"{__name__}:EchoRequest", EchoResponse, handle)
    with pytest.raises(PluginError, match="the messages of Echo are given by name, without its versions"):
        checked_apis([("one", [api])])


def test_checked_apis_refuses_a_built_in_api_of_another_plugin() -> None:
    with pytest.raises(PluginError, match="both serve API key 1, Fetch and Echo; block one of") as raised:
        checked_apis([("protocol_kafka", BUILT_IN), ("two", [echo(1)])])
    assert raised.value.plugin == "two"


def test_checked_apis_refuses_one_key_of_two_plugins() -> None:
    assert [api.key for api in checked_apis([("one", [echo(20_001), echo()])])] == [20_001, 20_000]
    with pytest.raises(PluginError, match="The plugins one and two both serve API key 20000, Echo and Echo"):
        checked_apis([("one", [echo()]), ("two", [echo()])])


def test_checked_apis_refuses_what_is_no_api() -> None:
    with pytest.raises(PluginError, match="The plugin one hands over 5, which is no API of the protocol"):
        checked_apis([("one", [5])])


def test_routes_serve_an_added_api_in_the_versions_of_its_messages() -> None:
    routes = Routes([echo()])
    assert routes.served == ((20_000, 1, 2),)
    assert [routes[20_000, version].header_tags for version in (1, 2)] == [b"", NO_TAGGED_FIELDS]
    assert routes.first_flexible[20_000] == 2
    for version in (-1, 0, 3):
        with pytest.raises(ProtocolViolation, match="of Echo is not served here, versions 1 to 2 are"):
            _ = routes[20_000, version]


async def test_a_plugin_may_return_one_large_response_again() -> None:
    answer = ManyResponse(echoes=[EchoResponse(error_code=0, number=number) for number in range(20_000)])
    api = KafkaApi(20_000, "Many", EchoRequest, ManyResponse, lambda _context, _request: answer)
    routes = Routes([api])
    request = encode_request(api.key, 1, 7, "tests", EchoRequest(number=1), routes.first_flexible)
    frame = b"".join(cast("list[bytes]", request))
    async with running_broker() as broker:
        sessions = fetch_session_cache(broker)
        wire = KafkaConnection(broker, PEER, routes, ClientTelemetry([]), fetch_sessions=sessions)
        sizes: list[int] = []
        for _ in range(2):
            wire.receive_buffer()[: len(frame)] = frame
            wire.bytes_received(len(frame))
            parts = await cast("Awaitable[Parts]", wire.next_step())
            sizes.append(sum(len(cast("bytes", part)) for part in parts))
            assert wire.next_step() is None
    assert sizes[0] == sizes[1] > 20_000 * 6


def test_an_api_may_be_declared_by_names_that_are_imported_at_the_first_request() -> None:
    request, response, handler = (f"{__name__}:{each}" for each in ("EchoRequest", "EchoResponse", "handle"))
    api = KafkaApi(20_000, "Echo", request, response, handler, VersionSpan(1, 2, flexible=2))
    route = Routes(checked_apis([("one", [api])]))[20_000, 2]
    assert (route.request_class, route.response_class, route.handle) == (EchoRequest, EchoResponse, handle)
    assert not KafkaApi(20_000, "Echo", "a.b:C", "a.b:D", "a.b:handle").is_imported
    assert echo().is_imported
