"""docs/embedding.md: its examples do what the page says, in order, in one folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Example, examples_of, run_example


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a reader works."""
    return tmp_path_factory.mktemp("embedding")


@pytest.mark.parametrize("example", examples_of("embedding.md"), ids=str)
def test_the_example_works(example: Example, folder: Path) -> None:
    run_example(example, folder)
