"""Fixtures of pytest with a Kafka: `kafka`, `kafka_session`, `kafka_factory`.

pytest imports this module in every run where tidelog is installed: it imports nothing else before a test asks
for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from tidelog.testing.server import KafkaServer

_INI = "kafka_settings"
_MARKER = "kafka"
_MOST_SHOWN = 20
_OPTION = "--tidelog-plugin"
_SUITES: pytest.StashKey[ModuleType] = pytest.StashKey()
_SERVERS = pytest.StashKey["list[KafkaServer]"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the ini key and the option."""
    parser.addini(_INI, "settings of the brokers of the fixtures, KEY=VALUE on each line", "linelist", [])
    group = parser.getgroup("tidelog")
    group.addoption(
        _OPTION,
        metavar="NAME",
        help="run the conformance suites of an installed plugin of tidelog, or of a module that is one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marker, and run the suites of a plugin where they are asked for."""
    plugin = config.getoption(_OPTION)
    if plugin is not None:
        _add_suites(config, plugin)
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(settings={{}}, topics=(), files=False): configuration and topics of the broker of the "
        "fixture kafka, and whether its records are in files, so that it can be killed and restarted",
    )


def _add_suites(config: pytest.Config, plugin: str) -> None:
    """Name the module of the suites among the files to collect, alone unless others are named."""
    from tidelog.kernel.errors import PluginError
    from tidelog.kernel.testing import suites

    try:
        config.stash[_SUITES] = suites.suites_of(plugin)
    except PluginError as error:
        raise pytest.UsageError(f"{_OPTION}: {error}") from error
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args[:] = []
    # The processes of pytest-xdist get the arguments of the first one.
    if suites.__file__ not in config.args:
        config.args.append(suites.__file__)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect the suites of the plugin in the place of the module that makes them."""
    found = parent.config.stash.get(_SUITES, None)
    if found is None or file_path.parts[-3:] != ("kernel", "testing", "suites.py"):
        return None
    collector = pytest.Module.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]
    collector.obj = found
    return collector


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the async tests of the suites under trio, also where `trio_mode` is not set."""
    for item in items:
        if isinstance(item, pytest.Function) and item.cls is not None and _is_async_of_suite(item):
            item.add_marker(pytest.mark.trio)


def _is_async_of_suite(item: pytest.Function) -> bool:
    from inspect import iscoroutinefunction

    return iscoroutinefunction(item.obj) and item.obj.__module__.startswith("tidelog.kernel.testing.")


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
