"""Each module of the broker has quick tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.targets import EXTRA_TESTS, modules_under, quick_tests

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
