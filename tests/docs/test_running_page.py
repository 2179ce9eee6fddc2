"""docs/running.md: every example does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.examples import Example, examples_of, run_example

EXAMPLES = examples_of("running.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the whole page, since later examples use the files of earlier ones."""
    made = tmp_path_factory.mktemp("running")
    for example in EXAMPLES:
        if example.file_name is not None:
            run_example(example, made)
    return made


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_example_works(example: Example, folder: Path) -> None:
    run_example(example, folder)
