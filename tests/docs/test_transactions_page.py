"""docs/transactions.md: every example does what the page says, against one broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import Example, examples_of, run_example
from tests.peers import running_tidelog

ADDRESS = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker of the page really is."""
    with running_tidelog(tmp_path_factory.mktemp("transactions")) as server:
        yield server.bootstrap


@pytest.mark.parametrize("example", examples_of("transactions.md"), ids=str)
def test_the_example_works(example: Example, bootstrap: str, tmp_path: Path) -> None:
    assert ADDRESS in example.text
    run_example(attrs.evolve(example, text=example.text.replace(ADDRESS, bootstrap)), tmp_path)
