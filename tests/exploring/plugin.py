"""One pass of pytest: property tests only, with an order and examples that follow from a seed."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_PASSING = re.compile(r"(\d+) passing")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take what `python -m tests.exploring` says."""
    parser.addoption("--explore-seed", type=int, help="of the order of the tests")
    parser.addoption("--explore-until", type=float, help="`time.time()` after which no test is begun")
    parser.addoption("--explore-counts", type=Path, help="where the examples of each test are counted")


def pytest_configure(config: pytest.Config) -> None:
    """Count examples."""
    config.pluginmanager.register(Pass(config), "explored pass")


class Pass:
    """One pass over the property tests."""

    def __init__(self, config: pytest.Config) -> None:
        self._seed: int = cast("int", config.getoption("--explore-seed"))
        self._until: float = cast("float", config.getoption("--explore-until"))
        self._path: Path = cast("Path", config.getoption("--explore-counts"))
        self._counts: dict[str, int] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the property tests, in an order of their own."""
        others = [item for item in items if item.get_closest_marker("hypothesis") is None]
        items[:] = [item for item in items if item.get_closest_marker("hypothesis") is not None]
        config.hook.pytest_deselected(items=others)
        random.Random(self._seed).shuffle(items)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Count the examples of a test, and end when the time is up."""
        outcome = yield
        told: str = getattr(item, "hypothesis_statistics", "")
        self._counts[item.nodeid] = sum(int(count) for count in _PASSING.findall(told))
        if time.time() > self._until:
            item.session.shouldstop = "the time is up"
        return outcome

    def pytest_sessionfinish(self) -> None:
        """Leave the counts for the process that started this one."""
        self._path.write_text(json.dumps(self._counts))
