"""`pytest --tidelog-plugin` and `tidelog plugins check` run the suites of what a plugin offers."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.deadlines import DEADLINE_S
from tests.kernel.cli.running import clean_environment, tidelog
from tidelog.kernel.errors import PluginError
from tidelog.kernel.plugins.loaded import NAMED_SEAMS
from tidelog.kernel.testing import suites

ROUGH = """
from tidelog.kernel import hookimpl

class Rough:
    name = "rough-policy"

    def interval_ms(self, config):
        return 0

    def plan(self, log, now_ms, config):
        raise NotImplementedError

@hookimpl
def tidelog_cleanup_policies():
    return [Rough()]
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=clean_environment({"PYTHONPATH": str(folder)}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_the_option_proves_each_thing_that_an_installed_plugin_offers(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--tidelog-plugin", "coordinator", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    tests = done.stdout.splitlines()
    for name in (
        "ClassicCoordinatorConformance",
        "MemoryCoordinatorConformance",
        "PartitionAssignorUniform",
        "PartitionAssignorRange",
    ):
        assert any(f"::Test{name}::test_" in line for line in tests), name


def test_the_option_is_beside_files_that_are_named_and_alone_without_any(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("def test_own(): ...\n")
    alone = pytest_in(tmp_path, "--tidelog-plugin", "index_memory", "--collect-only", "-q")
    both = pytest_in(tmp_path, "--tidelog-plugin", "index_memory", "--collect-only", "-q", "test_own.py")
    assert "test_own" not in alone.stdout
    assert "test_own.py::test_own" in both.stdout
    assert "TestIndexFormatMemory" in both.stdout


def test_plugins_check_runs_async_tests_without_any_configuration_of_pytest(tmp_path: Path) -> None:
    done = tidelog("plugins", "check", "metadata_memory")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_plugins_check_fails_where_a_plugin_does(tmp_path: Path) -> None:
    (tmp_path / "rough.py").write_text(ROUGH)
    done = tidelog("plugins", "check", "rough", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "TestCleanupPolicyRoughPolicy::test_interval_ms_is_positive" in done.stdout


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tidal", "tidal (named in the key `plugins`) cannot be imported: ModuleNotFoundError"),
        ("scaffold", "offers nothing that has a suite; there are suites for: storage, metadata store"),
    ],
)
def test_plugins_check_names_what_cannot_be_proven(name: str, message: str, tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "--tidelog-plugin", name)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    with pytest.raises(PluginError):
        suites.suites_of(name)


def test_a_sink_without_a_suite_of_its_own_is_not_proven() -> None:
    (name,) = [name for name in vars(suites.suites_of("spark_sink")) if name.startswith("Test")]
    assert name == "TestSinkSpark"
    with pytest.raises(pytest.skip.Exception, match="returns no subclass of SinkConformance"):
        vars(suites.suites_of("spark_sink"))[name]().test_suite()


def test_every_seam_with_names_has_a_suite_or_a_reason() -> None:
    without = {"command"}
    assert {NAMED_SEAMS[hook] for hook in suites.DEFAULTS} == set(NAMED_SEAMS.values()) - without


def test_the_page_of_plugins_has_the_suite_of_each_seam() -> None:
    page = (Path(__file__).parents[3] / "docs/plugins.md").read_text()
    rows = dict(re.findall(r"^\| ([\w ]+) \| `tidelog\.kernel\.testing\.([\w.]+)` \|", page, re.MULTILINE))
    assert rows.keys() == {NAMED_SEAMS[hook] for hook in suites.DEFAULTS}
    for hook, (suite, _) in suites.DEFAULTS.items():
        module, _, name = rows[NAMED_SEAMS[hook]].rpartition(".")
        assert getattr(import_module(f"tidelog.kernel.testing.{module}"), name) is suite
