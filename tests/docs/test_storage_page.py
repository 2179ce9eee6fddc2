"""docs/storage.md keeps its word: its example proves a storage, its files and its messages exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.docs.examples import DOCS, examples_of, run_example
from tests.tables import for_each
from tidelog.kernel.testing.indexes import IndexFormatConformance
from tidelog.kernel.testing.storage import StorageConformance

PAGE = (DOCS / "storage.md").read_text()
TESTS = DOCS.parent / "tests"
PLUGIN = DOCS.parent / "plugins/storage_file"
MESSAGES = re.findall(r"^\| `([^`]+)` \| [a-z]", PAGE, re.MULTILINE)


@pytest.mark.parametrize(
    ("file_name", "suite"),
    [("test_my_storage.py", StorageConformance), ("test_my_format.py", IndexFormatConformance)],
)
def test_an_example_proves_a_plugin(tmp_path: Path, file_name: str, suite: type) -> None:
    (example,) = [example for example in examples_of("storage.md") if example.file_name == file_name]
    (tmp_path / file_name).write_text(example.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 0, done.stdout
    count = sum(name.startswith("test_") for name in dir(suite))
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= count - 1


@for_each("name", sorted(set(re.findall(r"`([\w/]+\.py)`", PAGE))))
def test_a_module_that_it_names_exists(name: str) -> None:
    if name.startswith("test_"):
        assert name in ("test_my_storage.py", "test_my_format.py") or list(TESTS.rglob(name))
    else:
        assert (PLUGIN / name).exists() or (DOCS.parent / name).exists()


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_that_it_explains_is_one_of_ours(message: str) -> None:
    sources = "".join(path.read_text() for path in PLUGIN.rglob("*.py"))
    # What a message quotes from the machine is not in the sources.
    words = re.split(r"…|: Permission denied|meta\.properties|cluster\.id|: |=|\d+", message)
    assert len(MESSAGES) == 5
    for part in words:
        assert part.strip(" ,") in sources


def test_what_is_shown_of_several_directories_happens(tmp_path: Path) -> None:
    scripts = [example for example in examples_of("storage.md") if example.prints is not None]
    assert len(scripts) == 3
    for example in scripts:
        run_example(example, tmp_path)
