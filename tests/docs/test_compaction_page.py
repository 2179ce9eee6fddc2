"""docs/compaction.md: its examples do what the page says, and its tables have the keys and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example_on
from tests.kernel.config.bundle import BUNDLE
from tests.peers import TidelogServer, running_tidelog
from tests.tables import for_each
from tidelog.kernel.config.types import LONG_MAX

ADDRESS = "127.0.0.1:9092"
PAGE = (DOCS / "compaction.md").read_text()
QUICK = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "0"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogServer]:
    """A broker without topics that looks at its logs all the time."""
    with running_tidelog(tmp_path_factory.mktemp("compaction_page"), settings=QUICK) as running:
        yield running


@pytest.mark.parametrize("example", examples_of("compaction.md"), ids=str)
def test_the_example_works(example: Example, broker: TidelogServer, tmp_path: Path) -> None:
    there = attrs.evolve(example, text=example.text.replace(ADDRESS, broker.bootstrap))
    run_example_on(there, broker.bootstrap, tmp_path)


def test_what_is_logged_is_what_the_page_shows(broker: TidelogServer) -> None:
    (shown,) = re.findall(r"^    (prices-0: .*)$", PAGE, re.MULTILINE)
    pattern = re.sub(r"\d[\d.e-]*", r"[\\d.e-]+", re.escape(shown).replace(r"\-", "-"))
    assert re.search(pattern, (broker.work_dir / "tidelog.log").read_text()), pattern


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, for each key."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]


def shown_default(text: str) -> object:
    return LONG_MAX if text == "no limit" else text.strip("`")


@pytest.mark.parametrize("cells", rows("Settings of topics"), ids=lambda cells: str(cells[0]))
def test_the_table_of_topic_settings_has_the_defaults_of_each_key(cells: list[str]) -> None:
    name, default, source = cells
    key = BUNDLE.find(name.strip("`"), "topic")
    assert key is not None
    assert [each.key.name for each in key.broker_defaults] == [source.strip("`")]
    assert shown_default(default) in (key.default, key.type.format(key.default))


@for_each("cells", rows("Processes, memory and throttling"), ids=lambda cells: str(cells[0]))
def test_the_table_of_broker_settings_has_the_default_of_each_key(cells: list[str]) -> None:
    name, default, _ = cells
    key = BUNDLE.find(name.strip("`"), "broker")
    assert key is not None
    assert key.dynamic != (key.name == "log.cleaner.enable")
    if default == "no limit":
        assert isinstance(key.default, float)
        assert key.default > 1e300
    else:
        assert key.type.format(key.default) == default.strip("`")


def test_the_tables_have_all_keys_of_compaction() -> None:
    known = {key.name for key in BUNDLE if key.name.startswith("log.cleaner.")}
    assert known == set(re.findall(r"^\|.*`(log\.cleaner\.[a-z.]+)`", PAGE, re.MULTILINE))
