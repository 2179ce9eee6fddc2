"""docs/group-commands.md: every example does what the page says, one after the other, on one broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import Example, examples_of, run_example_on
from tests.peers import running_tidelog

EXAMPLES = examples_of("group-commands.md")
USUAL_ADDRESS = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that the page's examples fill."""
    with running_tidelog(tmp_path_factory.mktemp("group_commands_page")) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all examples run: one reads what another has exported."""
    return tmp_path_factory.mktemp("examples")


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_group_commands_page_example_works(example: Example, bootstrap: str, folder: Path) -> None:
    there = attrs.evolve(example, text=example.text.replace(USUAL_ADDRESS, bootstrap))
    run_example_on(there, bootstrap, folder)
