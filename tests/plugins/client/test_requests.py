"""Versions of requests: those of both sides, of APIs that plugins add, and of the first request."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.plugins.client.fakes import ranges_message
from tests.tables import for_each
from tidelog.plugins.client.errors import ErrorResponse, UnsupportedByBroker
from tidelog.plugins.client.requests import (
    BrokerVersions,
    PluginApi,
    first_flexible,
    message_for,
    of_plugin,
    version_to_retry,
    versions_request,
)
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.header import FIRST_FLEXIBLE, NEVER
from tidelog.plugins.protocol_kafka.messages.metadata import MetadataRequest
from tidelog.plugins.schema.declare import VersionSpan, int32, struct


@struct(VersionSpan(2, 4, flexible=3))
class TideRequest:
    """A request of a plugin."""

    height: int = int32()


@struct(VersionSpan(2, 4, flexible=3))
class TideResponse:
    """And its response."""

    height: int = int32()


@struct(VersionSpan(2, 4))
class RigidRequest:
    """One without flexible versions."""

    height: int = int32()


TIDE = PluginApi(20_000, "Tide", TideRequest, TideResponse)


def test_a_request_of_a_plugin_has_the_versions_of_its_class() -> None:
    message = TideRequest(height=3)
    request = of_plugin(TIDE, message)
    assert request.api == TIDE
    assert message_for(request, 2) is message
    assert (TIDE.versions.low, TIDE.newest_stable, TIDE.response_class) == (2, 4, TideResponse)
    assert first_flexible(TIDE) == {20_000: 3}
    assert first_flexible(PluginApi(7, "Rigid", RigidRequest, TideResponse)) == {7: NEVER}
    with pytest.raises(TypeError, match="MetadataRequest is no request of Tide: that is TideRequest"):
        of_plugin(TIDE, MetadataRequest(topics=[]))


def test_kafkas_own_requests_are_flexible_as_in_their_schemas() -> None:
    assert dict(FIRST_FLEXIBLE).items() >= {0: 9, 3: 9, 18: 3}.items()


@for_each(
    ("theirs", "at_most", "newest"),
    [
        ((0, 9), None, 4),
        ((0, 3), None, 3),
        ((2, 2), None, 2),
        ((4, 9), None, 4),
        ((0, 9), 3, 3),
        ((0, 2), 3, 2),
        ((0, 1), None, None),
        ((5, 9), None, None),
        ((4, 9), 3, None),
        (None, None, None),
    ],
)
def test_the_newest_version_of_both_sides_is_used(
    theirs: tuple[int, int] | None, at_most: int | None, newest: int | None
) -> None:
    versions = BrokerVersions.from_response("broker", ranges_message({20_000: theirs} if theirs else {}))
    if newest is not None:
        assert versions.newest(TIDE, at_most) == newest
        return
    with pytest.raises(UnsupportedByBroker) as raised:
        versions.newest(TIDE, at_most)
    assert (raised.value.ours, raised.value.theirs) == ((2, 4 if at_most is None else at_most), theirs)


@for_each(
    ("sent", "theirs", "again"),
    [(5, (0, 4), 4), (4, (0, 9), 3), (5, None, 0), (1, (0, 0), 0), (3, (0, -1), 0)],
)
def test_the_versions_are_asked_for_again_in_a_lower_version(
    sent: int, theirs: tuple[int, int] | None, again: int
) -> None:
    refusal = ranges_message({18: theirs} if theirs else {}, ErrorCode.UNSUPPORTED_VERSION)
    assert version_to_retry("broker", refusal, sent) == again
    assert version_to_retry("broker", ranges_message({}), sent) is None


def test_a_refusal_of_version_0_is_an_error() -> None:
    for sent, code in ((0, ErrorCode.UNSUPPORTED_VERSION), (3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)):
        with pytest.raises(ErrorResponse, match=f"ApiVersions v{sent} of broker: {code.name}"):
            version_to_retry("broker", ranges_message({}, code), sent)


def test_the_first_request_names_the_client_and_its_version() -> None:
    request = versions_request()
    assert (request.client_software_name, request.client_software_version) == ("tidelog", version("tidelog"))
