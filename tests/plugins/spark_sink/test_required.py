"""A PySpark that is missing or too old: each way to it says which one is there, and which one is needed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tidelog.plugins.spark_sink import environment
from tidelog.plugins.spark_sink.required import LEAST_PYSPARK, SparkNotUsable, require_spark

DISCOVERY = Path(environment.__file__).parent / "discovery"
ROOT = Path(__file__).parents[3]
OLD = {
    "pyspark/__init__.py": "",
    "pyspark/version.py": "__version__: str = '4.1.1'\n",
    "pyspark/sql/__init__.py": "",
    "pyspark/sql/datasource.py": "class DataSource:\n    pass\n",
}
TOO_OLD = "PySpark 4.1.1 in {} is too old: the format tidelog needs 4.2 or newer. Run: "
WAYS = {
    "register": "import pyspark_tidelog; pyspark_tidelog.register(None)",
    "discovery": "from pyspark_tidelog import DefaultSource as s; assert s.name() == 'tidelog'; s({})",
    "prepare": "from tidelog.plugins.spark_sink.environment import prepare_spark; prepare_spark()",
    "spark": "from tidelog.kernel.cli import main; main(['spark'])",
    "load": "from tidelog.kernel.cli import main; main(['load', 'tides', '--into', 'tides'])",
}


@pytest.fixture
def old_pyspark(tmp_path: Path) -> Path:
    """A folder with what is asked of PySpark 4.1."""
    for name, text in OLD.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_require_spark_names_the_version_whatever_the_way(old_pyspark: Path, way: str) -> None:
    path = os.pathsep.join([str(old_pyspark), str(DISCOVERY)])
    done = subprocess.run(
        [sys.executable, "-c", WAYS[way]],
        capture_output=True,
        text=True,
        cwd=old_pyspark,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode != 0
    assert TOO_OLD.format(old_pyspark / "pyspark") in done.stderr


def test_require_spark_reads_the_version_in_an_archive(
    old_pyspark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = old_pyspark / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in OLD.items():
            file.writestr(name, text)
    monkeypatch.syspath_prepend(str(archive))
    for name in [name for name in sys.modules if name == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SparkNotUsable, match=r"PySpark 4\.1\.1 in .*pyspark\.zip/pyspark is too old"):
        require_spark()


@pytest.mark.parametrize(("package", "name"), [("pyspark", "PySpark"), ("pyarrow", r"Arrow \(pyarrow\)")])
def test_require_spark_names_what_is_missing(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SparkNotUsable, match=f"^{name} is not installed. Run: "):
        require_spark()


def test_require_spark_accepts_what_is_installed() -> None:
    assert (require_spark() / "bin" / "pyspark").is_file()


def test_least_pyspark_is_that_of_the_package() -> None:
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    assert f"pyspark>={'.'.join(map(str, LEAST_PYSPARK))}" in needed
