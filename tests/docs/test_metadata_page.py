"""docs/metadata.md keeps its word: its modules, its keys and its messages exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.examples import DOCS
from tests.tables import for_each
from tidelog.kernel.config import declared_keys
from tidelog.plugins.metadata_kraft import keys

PAGE = (DOCS / "metadata.md").read_text()
PLUGIN = DOCS.parent / "plugins/metadata_kraft"
MESSAGES = re.findall(r"^\| `([^`]+)` \| [a-z]", PAGE, re.MULTILINE)
MODULES = set(re.findall(r"`(\w+(?:\.py|/))`", PAGE))


@for_each("name", sorted(MODULES))
def test_a_module_that_it_names_exists(name: str) -> None:
    assert (PLUGIN / name).exists()


def test_every_module_is_named() -> None:
    there = {path.name + "/" * path.is_dir() for path in PLUGIN.glob("[a-z]*")}
    assert there - {"keys.py", "plugin.py"} == MODULES


@for_each("message", MESSAGES)
def test_a_message_that_it_explains_is_one_of_ours(message: str) -> None:
    assert len(MESSAGES) == 7
    folders = (PLUGIN, DOCS.parent / "plugins/storage_file")
    sources = "".join(path.read_text() for folder in folders for path in folder.rglob("*.py"))
    # What a message quotes from the directory is not in the sources.
    for part in re.split(r"…|meta\.properties|metadata\.version|node\.id|: |=|\d+", message):
        assert part.strip(" ,") in sources


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(metadata\.(?:log|max)\.[\w.]+)`", PAGE))))
def test_a_key_that_it_names_exists(name: str) -> None:
    assert name in {key.name for key in declared_keys(keys)}
