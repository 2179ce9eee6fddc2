"""The README keeps its word: its examples run against a real broker, its links and folders exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.deadlines import DEADLINE_S
from tests.peers import running_tidelog
from tests.tables import for_each

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "news/README.md")
README = (ROOT / "README.md").read_text()
MAKE_TARGETS = sorted(set(re.findall(r"\bmake ([a-z-]+)", README + (ROOT / "CONTRIBUTING.md").read_text())))
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def links(page: str) -> list[str]:
    """The targets inside this project that a page links to."""
    targets: list[str] = re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text())
    return sorted({target for target in targets if "://" not in target})


def example(language: str, about: str) -> str:
    """The one code block of a language that mentions something."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (found,) = [block for block in blocks if about in block]
    return found


@for_each(("page", "target"), [(page, target) for page in PAGES for target in links(page)])
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    assert (ROOT / page).parent.joinpath(target).exists()


@for_each("target", MAKE_TARGETS)
def test_a_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_tidelog(tmp_path_factory.mktemp("readme")) as broker:
        yield broker.bootstrap


def run(command: list[str], text: str, bootstrap: str) -> str:
    """Feeds an example to an interpreter, with the running broker's address in place of the default one."""
    done = subprocess.run(
        command,
        input=text.replace(DEFAULT_BOOTSTRAP, bootstrap),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_kcat_example_works(bootstrap: str) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    assert "hello, log\n" in run(["bash", "-e"], example("sh", "kcat"), bootstrap)


def test_the_python_example_works(bootstrap: str) -> None:
    assert "b'hello from Python'" in run(
        [sys.executable, "-"], example("python", "confluent_kafka"), bootstrap
    )


def test_the_topics_example_works(bootstrap: str) -> None:
    installed = f"{Path(sys.executable).parent}/tidelog"
    text = example("sh", "tidelog topics").replace(".venv/bin/tidelog", installed)
    text = re.sub(r"(topics \w+)", rf"\1 --bootstrap-server {bootstrap}", text)
    assert "orders" in run(["bash", "-e"], text, bootstrap)
