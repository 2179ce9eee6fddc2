"""docs/retention.md: its commands do what the page says, and its tables name what there is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example_on
from tests.kernel.config.bundle import BUNDLE
from tests.peers import running_tidelog

EXAMPLES = examples_of("retention.md")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker without topics."""
    with running_tidelog(tmp_path_factory.mktemp("retention_page")) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_example_works(example: Example, bootstrap: str, tmp_path: Path) -> None:
    run_example_on(example, bootstrap, tmp_path)


def test_the_table_of_settings_has_the_defaults_of_each_key() -> None:
    table = (DOCS / "retention.md").read_text().partition("## Settings")[2].partition("\n\n[")[0]
    rows = re.findall(r"^\| `([a-z.]+)` \| (.*) \|$", table, flags=re.MULTILINE)
    assert len(rows) == 4
    for name, defaults in rows:
        key = BUNDLE.find(name, "topic")
        assert key is not None
        assert re.findall(r"`([a-z.]+)`", defaults) == [each.key.name for each in key.broker_defaults]
