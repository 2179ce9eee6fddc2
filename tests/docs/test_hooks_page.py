"""docs/hooks.md: every hook has a heading with its exact signature, an example, and a test of its own."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.examples import DOCS, examples_of, examples_of_hook
from tests.kernel import test_hooks
from tests.tables import for_each
from tidelog import kernel
from tidelog.kernel import hookspecs, seams
from tidelog.plugins.protocol_kafka import hookspecs as kafka_hookspecs

SPECS = {
    name: spec
    for module in (hookspecs, kafka_hookspecs)
    for name, spec in vars(module).items()
    if name.startswith("tidelog_")
}
HOOKS = list(SPECS)
LINES = [
    ("tidelog_storage_backends", 0, 40),
    ("tidelog_storage_backends", 1, 40),
    ("tidelog_index_formats", 0, 100),
    ("tidelog_cleanup_policies", 0, 40),
    ("tidelog_cleanup_policies", 1, 75),
    ("tidelog_sinks", 0, 40),
    ("tidelog_compression_codecs", 0, 50),
    ("tidelog_transports", 0, 50),
    ("tidelog_sasl_mechanisms", 0, 80),
    ("tidelog_kafka_apis", 0, 60),
    ("tidelog_background_tasks", 0, 15),
    ("tidelog_event_listeners", 0, 20),
    ("tidelog_request_stages", 0, 35),
    ("tidelog_meters", 0, 30),
    ("tidelog_interceptors", 0, 60),
    ("tidelog_authorizers", 0, 80),
    ("tidelog_quota_callbacks", 0, 50),
]
"""How long the examples of a hook may be, without empty lines: what a stranger has to write."""
HEADINGS = re.findall(r"^## `(.*)`$", (DOCS / "hooks.md").read_text(), re.MULTILINE)


def signature(hook: str) -> str:
    return hook + str(inspect.signature(SPECS[hook])).replace("'", "")


def test_the_page_has_the_hooks_in_the_order_of_their_declaration() -> None:
    assert [signature(hook) for hook in HOOKS] == HEADINGS


@for_each("hook", HOOKS)
def test_a_hook_is_declared_as_the_page_says(hook: str) -> None:
    spec = SPECS[hook]
    assert spec.__doc__
    # What a hook's arguments default to differs between versions of pluggy.
    assert all(item.default is item.empty for item in inspect.signature(spec).parameters.values())


@for_each("hook", HOOKS)
def test_a_hook_has_a_test_of_its_own(hook: str) -> None:
    assert callable(getattr(test_hooks, f"test_{hook}", None)), (
        f"write test_{hook} in tests/kernel/test_hooks.py"
    )


@for_each("hook", HOOKS)
def test_each_argument_is_explained_and_an_example_given(hook: str) -> None:
    page = (DOCS / "hooks.md").read_text()
    section = page.partition(f"## `{signature(hook)}`")[2].partition("\n## ")[0]
    for argument in inspect.signature(SPECS[hook]).parameters:
        assert f"- `{argument}`: " in section
    assert "- Called: " in section
    assert "- Returns: " in section
    assert f"def {hook}(" in section


def public() -> dict[str, list[str]]:
    """Modules in the first column of the page's table of what is public → names in the second one."""
    section = (DOCS / "hooks.md").read_text().partition("\n## What is public\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]
    return {
        module: re.findall(r"`(\w+)`", names) for row, names in rows for module in re.findall(r"`(.*?)`", row)
    }


def test_the_kernel_offers_the_names_that_the_page_lists() -> None:
    assert public()["tidelog.kernel"] == sorted(kernel.__all__, key=str.lower)
    assert all(getattr(kernel, name) is not None for name in kernel.__all__)


def test_every_public_module_is_there() -> None:
    assert [module for module in public() if importlib.util.find_spec(module) is None] == []


@for_each("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_examples_import_only_what_is_public(page: str) -> None:
    whole = [module for module in public() if module != "tidelog.kernel"]
    for example in examples_of(page):
        if example.language != "python":
            continue
        for module, names in imports_in(example.text):
            if module == "tidelog.kernel":
                assert set(names) <= set(kernel.__all__), example
            elif names != ["plugin"]:  # a plugin that stands for the reader's own
                assert any(f"{module}.".startswith(f"{each}.") for each in whole), f"{example}: {module}"


def test_the_page_lists_every_class_that_plugins_get_from_elsewhere() -> None:
    section = (DOCS / "hooks.md").read_text().partition("\n## What is public\n")[2].partition("\n## ")[0]
    whole = [module for module in public() if module != "tidelog.kernel"]
    for seam in sorted(Path(seams.__path__[0]).rglob("*.py")):
        for module, names in imports_in(seam.read_text()):
            if not any(
                f"{module}.".startswith(f"{each}.") for each in (*whole, "tidelog.kernel.topic_partition")
            ):
                assert [name for name in names if f"`{name}`" not in section] == [], seam


def imports_in(source: str) -> Iterator[tuple[str, list[str]]]:
    """Modules of tidelog that a program imports from, and which names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog"):
            yield node.module or "", [each.name for each in node.names]
        elif isinstance(node, ast.Import):
            yield from ((each.name, list[str]()) for each in node.names if each.name.startswith("tidelog"))


def test_the_table_promises_what_the_examples_are_held_to() -> None:
    section = (DOCS / "hooks.md").read_text().partition("\n## Which hook for what\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\|.*?\| `(\w+)` \|.*\| (\d+) \|$", section, re.MULTILINE)
    assert [(hook, int(lines)) for hook, lines in rows] == [(hook, most) for hook, _, most in LINES]


@for_each("hook", HOOKS)
def test_every_further_example_has_a_length(hook: str) -> None:
    further = [number for each, number, _ in LINES if each == hook and number]
    assert further == [*range(1, len(examples_of_hook(hook)))]


@for_each(("hook", "number", "most"), LINES)
def test_an_example_is_no_longer_than_this(hook: str, number: int, most: int) -> None:
    example = examples_of_hook(hook)[number]
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= most
