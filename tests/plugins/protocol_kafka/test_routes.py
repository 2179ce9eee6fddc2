"""Routes: every API that is claimed has messages, codecs and a handler; all else is a violation."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from tests.tables import for_each
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.plugins.protocol_kafka.apis import KafkaApi, resolve
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.messages.api import APIS
from tidelog.plugins.protocol_kafka.routes import NO_TAGGED_FIELDS, Routes

each_api = for_each("served", BUILT_IN, ids=[api.name for api in BUILT_IN])


def routes() -> Routes:
    return Routes(BUILT_IN)


@each_api
def test_every_claimed_version_has_a_route(served: KafkaApi) -> None:
    api = APIS[served.key]
    for version in range(served.span.low, served.span.high + 1):
        route = routes()[served.key, version]
        assert (route.api, route.version) == (served, version)
        assert (route.request_class, route.response_class) == (api.request_class, api.response_class)
        assert callable(route.handle)
        flexible = api.response_header_version(version) == 1
        assert route.header_tags == (NO_TAGGED_FIELDS if flexible else b"")


@each_api
def test_every_version_from_the_first_to_the_newest_is_served(served: KafkaApi) -> None:
    assert (served.span.low, served.span.high) == (0, APIS[served.key].versions.high)


@each_api
def test_no_handler_returns_a_generator(served: KafkaApi) -> None:
    """A generator function is behind `in_steps`."""
    handle = resolve(served.handle)
    assert not inspect.isgeneratorfunction(handle)
    assert hasattr(handle, "__wrapped__") == inspect.isgeneratorfunction(inspect.unwrap(handle))


def test_the_table_has_each_api_once_by_key() -> None:
    keys = [api.key for api in BUILT_IN]
    assert keys == sorted(set(keys)) == sorted(APIS)


@each_api
def test_other_versions_are_a_violation_that_tells_which_are_served(served: KafkaApi) -> None:
    newest = served.span.high
    for version in (-1, newest + 1, 2**15 - 1, -(2**15)):
        if served.name == "ApiVersions":
            assert routes()[served.key, version].version == 0
            continue
        with pytest.raises(
            ProtocolViolation,
            match=rf"version {version} of {served.name} is not served here, versions 0 to {newest} are",
        ):
            _ = routes()[served.key, version]


@for_each("key", [-1, 4, 7, 999, 2**15 - 1, -(2**15)])
def test_routes_refuse_an_api_that_is_not_served(key: int) -> None:
    with pytest.raises(ProtocolViolation, match=rf"API key {key}( \(\w+\))? is not served here"):
        _ = routes()[key, 0]


def test_only_routes_that_are_served_are_kept() -> None:
    kept = routes()
    assert kept[18, 0] is kept[18, 0]
    assert {kept[18, version].version for version in range(100, 200)} == {0}
    with pytest.raises(ProtocolViolation):
        _ = kept[999, 0]
    assert list(kept) == [(18, 0)]


def test_client_metrics_are_announced_only_where_a_plugin_receives_them() -> None:
    announced = {api.key for api in Routes(BUILT_IN, has_metrics_receiver=True).served}
    assert announced - {api.key for api in routes().served} == {71, 72}


def test_routes_of_unknown_api_versions_versions_use_response_header_0() -> None:
    assert routes()[18, 99].header_tags == routes()[18, 5].header_tags == b""


def test_handlers_are_imported_when_first_asked_for() -> None:
    code = (
        "import sys; from tidelog.plugins.protocol_kafka.routes import Routes; "
        "from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN; "
        "package = 'tidelog.plugins.protocol_kafka.'; "
        "found = lambda: {m.removeprefix(package) for m in sys.modules if m.startswith(package)}; "
        "routes = Routes(BUILT_IN); before = found(); routes[18, 0]; "
        "print(*sorted(m for m in before if m.startswith(('apis.', 'messages.')))); "
        "print(*sorted(found() - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    before, added = done.stdout.splitlines()
    assert before.split() == ["apis.table", "messages.api", "messages.errors", "messages.header"]
    assert {"apis.api_versions", "messages.api_versions"} <= set(added.split())
