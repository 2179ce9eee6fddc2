"""docs/hooks.md: every hook has a heading with its exact signature, an example, and a test of its own."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.docs.examples import DOCS, example_of_hook
from tests.kernel import test_hooks
from tidelog.kernel import hookspecs
from tidelog.plugins.protocol_kafka import hookspecs as kafka_hookspecs

SPECS = {
    name: spec
    for module in (hookspecs, kafka_hookspecs)
    for name, spec in vars(module).items()
    if name.startswith("tidelog_")
}
HOOKS = list(SPECS)
LINES = {
    "tidelog_index_formats": 100,
    "tidelog_background_tasks": 15,
    "tidelog_event_listeners": 20,
    "tidelog_kafka_apis": 60,
}
"""How long the example of a hook may be, without empty lines: what a stranger has to write."""
HEADINGS = re.findall(r"^## `(.*)`$", (DOCS / "hooks.md").read_text(), re.MULTILINE)


def signature(hook: str) -> str:
    return hook + str(inspect.signature(SPECS[hook])).replace("'", "")


def test_the_page_has_the_hooks_in_the_order_of_their_declaration() -> None:
    assert [signature(hook) for hook in HOOKS] == HEADINGS


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_is_declared_as_the_page_says(hook: str) -> None:
    spec = SPECS[hook]
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
    for argument in inspect.signature(SPECS[hook]).parameters:
        assert f"- `{argument}`: " in section
    assert "- Called: " in section
    assert "- Returns: " in section
    assert f"def {hook}(" in section


@pytest.mark.parametrize(("hook", "most"), LINES.items())
def test_an_example_is_no_longer_than_this(hook: str, most: int) -> None:
    lines = [line for line in example_of_hook(hook).splitlines() if line and not line.startswith("#")]
    assert len(lines) <= most
