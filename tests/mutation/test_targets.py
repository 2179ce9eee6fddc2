"""Each module of the broker has quick tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.targets import EXTRA_TESTS, PRELOADED, modules_under, preloaded, quick_tests

ROOT = Path(__file__).parents[2]


def test_the_mirroring_file_comes_first_and_then_its_folder() -> None:
    tests = quick_tests(Path("kernel/partition/watermarks.py"), ROOT)

    assert tests[:2] == ["tests/kernel/partition/test_watermarks.py", "tests/kernel/partition"]


def test_a_folder_without_quick_tests_its_own_is_covered_by_the_one_above() -> None:
    assert quick_tests(Path("plugins/storage_file/testing/device.py"), ROOT) == ["tests/plugins/storage_file"]


@pytest.mark.parametrize(("prefix", "tests"), EXTRA_TESTS)
def test_the_table_names_what_is_there(prefix: str, tests: tuple[str, ...]) -> None:
    assert (ROOT / prefix).exists()
    assert [test for test in tests if not (ROOT / test).exists()] == []


def test_a_folder_stands_for_its_modules() -> None:
    modules = modules_under(ROOT / "kernel" / "partition", ROOT)

    assert Path("kernel/partition/watermarks.py") in modules
    assert all(module.suffix == ".py" for module in modules)


@pytest.mark.parametrize(("prefix", "names"), PRELOADED)
def test_nothing_is_loaded_before_a_mutant_that_imports_its_folder(
    prefix: str, names: tuple[str, ...]
) -> None:
    program = f"import sys, {', '.join(names)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    folder = f"tidelog.{prefix.replace('/', '.')}".removesuffix(".")
    assert [name for name in done.stdout.split() if name.startswith(f"{folder}.")] == []


def test_modules_of_the_kernel_are_never_loaded_before_their_mutants() -> None:
    assert preloaded(Path("kernel/clock.py")) == []
