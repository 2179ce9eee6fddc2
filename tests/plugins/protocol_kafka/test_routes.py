"""Routes: every API that is claimed has messages, codecs and a handler; all else is a violation."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tables import for_each
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.routes import NO_TAGGED_FIELDS, SERVED, Routes, Served, find_route

each_api = for_each("served", SERVED.values(), ids=[APIS[key].name for key in SERVED])


@each_api
def test_every_claimed_version_has_a_route(served: Served) -> None:
    api = APIS[served.key]
    for version in range(served.min_version, served.max_version + 1):
        route = find_route(served.key, version)
        assert (route.name, route.version) == (api.name, version)
        assert route.response_class is api.response_class
        assert callable(route.handle)
        flexible = api.response_header_version(version) == 1
        assert route.header_tags == (NO_TAGGED_FIELDS if flexible else b"")


@each_api
def test_every_version_from_the_first_to_the_newest_is_served(served: Served) -> None:
    assert (served.min_version, served.max_version) == (0, APIS[served.key].versions.high)


@each_api
def test_other_versions_are_a_violation_that_tells_which_are_served(served: Served) -> None:
    api, newest = APIS[served.key], served.max_version
    for version in (-1, newest + 1, 2**15 - 1, -(2**15)):
        if api.name == "ApiVersions":
            assert find_route(served.key, version).version == 0
            continue
        with pytest.raises(
            ProtocolViolation,
            match=rf"version {version} of {api.name} is not served here, versions 0 to {newest} are",
        ):
            find_route(served.key, version)


@for_each("key", [-1, 4, 7, 999, 2**15 - 1, -(2**15)])
def test_find_route_refuses_an_api_that_is_not_served(key: int) -> None:
    with pytest.raises(ProtocolViolation, match=rf"API key {key}( \(\w+\))? is not served here"):
        find_route(key, 0)


def test_only_routes_that_are_served_are_kept() -> None:
    routes = Routes()
    assert routes[18, 0] is routes[18, 0]
    assert {routes[18, version].version for version in range(100, 200)} == {0}
    with pytest.raises(ProtocolViolation):
        _ = routes[999, 0]
    assert list(routes) == [(18, 0)]


def test_find_route_of_unknown_api_versions_versions_uses_response_header_0() -> None:
    assert find_route(18, 99).header_tags == find_route(18, 5).header_tags == b""


def test_handlers_are_imported_when_first_asked_for() -> None:
    code = (
        "import sys; from tidelog.plugins.protocol_kafka import routes; "
        "loaded = lambda: [m for m in sys.modules if m.startswith(routes.HANDLERS + '.')]; "
        "assert not loaded(), loaded(); routes.find_route(18, 0); assert loaded()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
