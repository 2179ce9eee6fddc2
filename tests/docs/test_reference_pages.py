"""docs/seams.md and docs/commands.md say what the source does, and nothing public is missing."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from tests.docs.examples import DOCS
from tests.docs.reference_pages import PAGES
from tests.tables import for_each
from tidelog.kernel import seams


@for_each("name", list(PAGES))
def test_a_page_of_reference_equals_what_make_docs_writes(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), f"docs/{name} is stale: run `make docs`"


def test_every_public_class_of_the_seams_is_on_the_page() -> None:
    page = (DOCS / "seams.md").read_text()
    for found in pkgutil.walk_packages(seams.__path__, f"{seams.__name__}."):
        module = import_module(found.name)
        for name, item in vars(module).items():
            if inspect.isclass(item) and item.__module__ == module.__name__ and not name.startswith("_"):
                assert f"### `{name}`" in page, found.name
