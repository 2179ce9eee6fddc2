"""docs/plugins.md: the steps lead where the page says, in order, in one folder."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.docs.examples import Example, examples_of, run_example
from tests.docs.packages import install, project_of
from tests.kernel.cli.running import serving

EXAMPLES = examples_of("plugins.md")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all files of the page."""
    made = tmp_path_factory.mktemp("plugin")
    for example in EXAMPLES:
        if example.file_name is not None:
            run_example(example, made)
    return made


@pytest.mark.parametrize("example", [item for item in EXAMPLES if item.file_name is None], ids=str)
def test_the_example_works(example: Example, folder: Path) -> None:
    run_example(example, folder)


def test_the_distribution_announces_the_plugin(folder: Path) -> None:
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    (module,) = project["project"]["entry-points"]["tidelog"].values()
    assert [module] == project["tool"]["setuptools"]["py-modules"]
    assert (folder / f"{module}.py").exists()


def test_a_real_broker_finds_the_installed_distribution(folder: Path, tmp_path: Path) -> None:
    source = (folder / "tide_gauge.py").read_text()
    assert project_of("tide_gauge") == (folder / "pyproject.toml").read_text()
    site = install([("tide_gauge", source)], tmp_path)
    # The broker would refuse the plugin's key if it did not know the plugin.
    with serving(tmp_path, "--set", "tide.gauge.interval.ms=1", PYTHONPATH=str(site)) as broker:
        assert broker.ready
        assert broker.stop() == 0
    assert "ERROR" not in broker.stderr


def test_a_real_broker_runs_the_plugin(folder: Path, tmp_path: Path) -> None:
    settings = ("--set", "plugins=tide_gauge", "--set", "tide.gauge.interval.ms=1")
    with serving(tmp_path, *settings, PYTHONPATH=str(folder)) as broker:
        assert broker.ready
        assert broker.stop() == 0
    assert "ERROR" not in broker.stderr
