"""docs/groups.md: every example does what the page says, one after the other, on one broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example
from tests.peers import running_tidelog
from tests.tables import for_each
from tidelog.kernel.config import declared_keys
from tidelog.plugins.coordinator import keys
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

ADDRESS = "127.0.0.1:9092"
PAGE = (DOCS / "groups.md").read_text()


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the broker of the page really is."""
    with running_tidelog(tmp_path_factory.mktemp("groups_page")) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("example", examples_of("groups.md"), ids=str)
def test_the_example_works(example: Example, bootstrap: str, tmp_path: Path) -> None:
    run_example(attrs.evolve(example, text=example.text.replace(ADDRESS, bootstrap)), tmp_path)


@for_each("code", sorted(set(re.findall(r"\b[A-Z]+_[A-Z_]+\b", PAGE))))
def test_a_code_that_it_explains_exists(code: str) -> None:
    assert code in ErrorCode.__members__


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(offsets?\.[a-z.]+)`", PAGE))))
def test_a_key_that_it_names_exists(name: str) -> None:
    assert name in {key.name for key in declared_keys(keys)}
