"""docs/testing-applications.md: its examples do what the page says, and its tables name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.examples import DOCS, Example, examples_of, run_example
from tidelog.testing import AsyncKafkaServer, KafkaServer

PAGE = "testing-applications.md"
FRAMEWORKS = DOCS.parent / ".tools/frameworks/bin/python"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a reader works."""
    return tmp_path_factory.mktemp("testing")


def uses(example: Example, *frameworks: str) -> bool:
    """Whether an example imports one of these."""
    return any(re.search(rf"^(import|from) {name}\b", example.text, re.MULTILINE) for name in frameworks)


ELSEWHERE = [each for each in examples_of(PAGE) if uses(each, "quixstreams", "faust")]
HERE = [each for each in examples_of(PAGE) if each not in ELSEWHERE]


@pytest.mark.parametrize(
    "example",
    [
        # Its import takes longer than the other examples.
        pytest.param(each, marks=[pytest.mark.long] if uses(each, "faststream") else [], id=str(each))
        for each in HERE
    ],
)
def test_the_example_works(example: Example, folder: Path) -> None:
    run_example(example, folder)


@pytest.mark.skipif(not FRAMEWORKS.exists(), reason="`make frameworks` makes their environment")
@pytest.mark.parametrize("framework", ["quixstreams", "faust"])
def test_the_example_with_a_framework_that_has_pins_of_its_own_works(framework: str, folder: Path) -> None:
    (example,) = [each for each in ELSEWHERE if uses(each, framework)]
    run_example(example, folder, python=FRAMEWORKS)


def test_the_page_has_every_method_of_a_server() -> None:
    table = (DOCS / PAGE).read_text().partition("| methods |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)", row.partition(" | ")[0])}
    public = {name for name in vars(KafkaServer) if not name.startswith("_")}
    assert public - {"is_running"} <= named | {"clock"}
    of_async = {name for name in vars(AsyncKafkaServer) if not name.startswith("_")}
    assert of_async <= public | {"clock"}


def test_the_page_has_every_option_of_a_fault() -> None:
    from inspect import signature

    from tidelog.testing import InjectedFaults

    section = (DOCS / PAGE).read_text().partition("## Faults")[2].partition("\n## ")[0]
    options = set(signature(InjectedFaults.inject).parameters) - {"self", "apis"}
    assert options <= set(re.findall(r"`(\w+)", section))
