"""docs/durability.md: its commands do what the page says, and its keys are keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, examples_of, run_example_on
from tests.kernel.config.bundle import BUNDLE
from tests.peers import running_tidelog
from tidelog.kernel.log.flush_threads import THREADS_PER_DIRECTORY

PAGE = (DOCS / "durability.md").read_text()
EXAMPLES = examples_of("durability.md")
COUNTS = {"four": 4}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker without topics."""
    with running_tidelog(tmp_path_factory.mktemp("durability_page")) as broker:
        yield broker.bootstrap


def test_the_examples_work_one_after_the_other(bootstrap: str, tmp_path: Path) -> None:
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        run_example_on(example, bootstrap, tmp_path)


def test_the_table_of_settings_has_keys_of_topics_and_of_the_broker() -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \| (a topic|the broker) \|", PAGE, flags=re.MULTILINE)
    assert len(rows) == 5
    for name, owner in rows:
        assert BUNDLE.find(name, "topic" if owner == "a topic" else "broker") is not None


def test_the_number_of_threads_is_that_of_the_broker() -> None:
    (count,) = re.findall(r"Up to (\w+) files of a log directory", PAGE)
    assert COUNTS[count] == THREADS_PER_DIRECTORY
