"""Functions of a module that is imported already get the code of another text."""

from __future__ import annotations

import gc
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation.functions import change_functions, differs_in_functions_only
from tests.tables import for_each

TEXT = """
from contextlib import contextmanager
LIMIT = 4
TABLE = [x * 2 for x in range(3)]
def plain(x, more=1):
    return x + more
@contextmanager
def decorated():
    yield 5
def made():
    def inner(x):
        return x - 6
    return inner
already_made = made()
class Thing:
    size = 7
    def method(self):
        return [x for x in range(8)]
    @property
    def named(self):
        return lambda: "nine"
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    path = tmp_path / "changed_module.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("changed_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["changed_module"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["changed_module"]


IN_FUNCTIONS = [
    ("x + more", "x - more", "plain(10)", 9),
    ("    return x + more", "    pass", "plain(10)", None),
    ("yield 5", "yield 55", "decorated().__enter__()", 55),
    ("x - 6", "x - 66", "made()(0)", -66),
    ("x - 6", "x - 66", "already_made(0)", -66),
    ("range(8)", "range(1)", "Thing().method()", [0]),
    ("[x for", "[x + 1 for", "Thing().method()", [*range(1, 9)]),
    ('"nine"', '"no"', "Thing().named()", "no"),
]


@for_each(("old", "new", "expression", "value"), IN_FUNCTIONS)
def test_change_functions_changes_what_was_imported(
    module: ModuleType, old: str, new: str, expression: str, value: object
) -> None:
    changed = TEXT.replace(old, new)
    assert differs_in_functions_only(TEXT, changed)
    before = dict(vars(module))
    change_functions(Path("changed_module.py"), TEXT, changed)
    assert eval(expression, before) == value


def test_change_functions_takes_the_text_of_a_module_without_functions_itself(module: ModuleType) -> None:
    """So the tests run without a mutant before they run with one."""
    change_functions(Path("changed_module.py"), "LIMIT = 4\n", "LIMIT = 4\n")
    assert module.LIMIT == 4


def test_change_functions_changes_what_the_collector_does_not_visit(module: ModuleType) -> None:
    frozen = gc.get_freeze_count()
    gc.freeze()
    try:
        change_functions(Path("changed_module.py"), TEXT, TEXT.replace("x + more", "x - more"))
        assert gc.get_freeze_count()
    finally:
        if not frozen:
            gc.unfreeze()
    assert module.plain(10) == 9


@for_each(
    ("old", "new"),
    [
        ("LIMIT = 4", "LIMIT = 4.0"),
        ("LIMIT = 4", "LIMIT = -4"),
        ("x * 2", "x * 3"),
        ("more=1", "more=2"),
        ("@contextmanager", "@property"),
        ("size = 7", "size = 8"),
        ("made()\nclass", "made\nclass"),
    ],
)
def test_differs_in_functions_only_is_false_for_what_is_computed_at_import(old: str, new: str) -> None:
    assert TEXT.replace(old, new) != TEXT
    assert not differs_in_functions_only(TEXT, TEXT.replace(old, new))
