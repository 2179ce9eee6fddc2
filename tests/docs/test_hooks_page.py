"""docs/hooks.md: every hook has a heading with its exact signature, an example, and a test of its own."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.docs.examples import DOCS
from tests.kernel import test_hooks
from tidelog.kernel import hookspecs

HOOKS = [name for name in vars(hookspecs) if name.startswith("tidelog_")]
HEADINGS = re.findall(r"^## `(.*)`$", (DOCS / "hooks.md").read_text(), re.MULTILINE)


def signature(hook: str) -> str:
    return hook + str(inspect.signature(getattr(hookspecs, hook))).replace("'", "")


def test_the_page_has_the_hooks_in_the_order_of_their_declaration() -> None:
    assert [signature(hook) for hook in HOOKS] == HEADINGS


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_declared_as_the_page_says(hook: str) -> None:
    spec = getattr(hookspecs, hook)
    assert spec.__doc__
    # What a hook's arguments default to differs between versions of pluggy.
    assert all(item.default is item.empty for item in inspect.signature(spec).parameters.values())


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_has_a_test_of_its_own(hook: str) -> None:
    assert callable(getattr(test_hooks, f"test_{hook}", None)), (
        f"write test_{hook} in tests/kernel/test_hooks.py"
    )


@pytest.mark.parametrize("hook", HOOKS)
def test_each_argument_is_explained_and_an_example_given(hook: str) -> None:
    page = (DOCS / "hooks.md").read_text()
    section = page.partition(f"## `{signature(hook)}`")[2].partition("\n## ")[0]
    for argument in inspect.signature(getattr(hookspecs, hook)).parameters:
        assert f"- `{argument}`: " in section
    assert "- Called: " in section
    assert "- Returns: " in section
    assert f"def {hook}(" in section
