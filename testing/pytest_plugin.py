"""Fixtures of pytest with a Kafka: `kafka`, `kafka_session`, `kafka_factory`.

pytest imports this module in every run where tidelog is installed: it imports nothing else before a test asks
for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tidelog.testing.server import KafkaServer

_INI = "kafka_settings"
_MARKER = "kafka"
_MOST_SHOWN = 20
_SERVERS = pytest.StashKey["list[KafkaServer]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini key."""
    parser.addini(_INI, "settings of the brokers of the fixtures, KEY=VALUE on each line", "linelist", [])


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(settings={{}}, topics=(), files=False): configuration and topics of the broker of the "
        "fixture kafka, and whether its records are in files, so that it can be killed and restarted",
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Show what was asked last beside the failure of a test."""
    outcome = yield
    if call.when != "call" or call.excinfo is None:
        return
    report = outcome.get_result()
    none: list[KafkaServer] = []
    for server in item.stash.get(_SERVERS, none):
        if server.is_running:
            lines = [str(each) for each in server.requests()[-_MOST_SHOWN:]]
            report.sections.append((f"last requests to Kafka at {server.bootstrap}", "\n".join(lines)))


@pytest.fixture
def kafka_factory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Callable[..., KafkaServer]]:
    """Return a function that starts one more server, with the arguments of `KafkaServer` and `files`."""
    started: list[KafkaServer] = []
    item: pytest.Item = request.node
    item.stash[_SERVERS] = started

    def start(
        settings: dict[str, object] | None = None, *, files: bool = False, **options: Any
    ) -> KafkaServer:
        server = _server(request.config, tmp_path_factory, settings, files=files, **options)
        server.start()
        started.append(server)
        return server

    yield start
    for server in reversed(started):
        server.stop()


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_factory: Callable[..., KafkaServer]) -> KafkaServer:
    """Return a running server that the test has for itself; the marker `kafka` has its options."""
    options: dict[str, Any] = {}
    # The nearest last, so that it counts.
    for marker in reversed(list(request.node.iter_markers(_MARKER))):
        settings = {**options.get("settings", {}), **_settings_of(marker)}
        options |= {**marker.kwargs, "settings": settings}
    return kafka_factory(options.pop("settings", None), **options)


@pytest.fixture(scope="session")
def kafka_session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[KafkaServer]:
    """Return a running server that all tests of the session share, each with topics of its own."""
    with _server(request.config, tmp_path_factory, None) as server:
        yield server


def _settings_of(marker: pytest.Mark) -> dict[str, object]:
    if len(marker.args) > 1 or (marker.args and "settings" in marker.kwargs):
        raise pytest.UsageError(f"the marker {_MARKER} has one mapping of settings, the rest is named")
    return dict(marker.args[0] if marker.args else marker.kwargs.get("settings", {}))


def _server(
    config: pytest.Config,
    paths: pytest.TempPathFactory,
    settings: dict[str, object] | None,
    *,
    files: bool = False,
    **options: Any,
) -> KafkaServer:
    from tidelog.testing.server import KafkaServer

    common: dict[str, object] = {}
    for line in config.getini(_INI):
        key, separator, value = line.partition("=")
        if not separator:
            raise pytest.UsageError(f"{_INI}: {line!r} is not of the form KEY=VALUE")
        common[key.strip()] = value.strip()
    if files:
        options["directory"] = paths.mktemp("kafka")
    return KafkaServer({**common, **(settings or {})}, **options)
