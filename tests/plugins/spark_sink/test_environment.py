"""`tidelog spark`, and the environment that it gives to Spark."""

from __future__ import annotations

import os
import pkgutil
import sys
from pathlib import Path

import pytest

from tests.kernel.cli.running import tidelog
from tests.plugins.spark_sink.test_java import fake_java
from tidelog.plugins.spark_sink.environment import prepare_spark, spark_environment, start_context

SCRIPT = """
import os, sys, pkgutil
print(sys.argv[1:], os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"] == sys.executable)
print([module.name for module in pkgutil.iter_modules() if module.name == "pyspark_tidelog"])
sys.exit(3)
"""


@pytest.fixture
def java_home(tmp_path: Path) -> str:
    """A Java that Spark would take."""
    return str(fake_java(tmp_path / "java", "17"))


def test_spark_environment_names_java_and_the_python_of_workers(java_home: str) -> None:
    java, variables = spark_environment({"JAVA_HOME": java_home, "PATH": ""})
    assert str(java.home) == variables["JAVA_HOME"] == java_home
    assert variables["PYSPARK_PYTHON"] == variables["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_spark_environment_keeps_what_the_user_has_set(
    java_home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pkgutil, "iter_modules", lambda: iter(()))
    given = {"JAVA_HOME": java_home, "PATH": "", "PYSPARK_PYTHON": "/other/python", "PYTHONPATH": "/mine"}
    _, variables = spark_environment(given)
    assert variables["PYSPARK_PYTHON"] == "/other/python"
    discovery, mine = variables["PYTHONPATH"].split(":")
    assert (Path(discovery) / "pyspark_tidelog" / "__init__.py").exists()
    assert mine == "/mine"


def test_prepare_spark_sets_up_this_process(java_home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert str(prepare_spark().home) == java_home
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert any(module.name == "pyspark_tidelog" for module in pkgutil.iter_modules())


def test_tidelog_spark_runs_a_script_with_what_spark_needs(tmp_path: Path, java_home: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = tidelog("spark", str(script), "--flag", "-x", JAVA_HOME=java_home)
    assert done.returncode == 3
    assert done.stdout == f"['--flag', '-x'] {java_home} True\n['pyspark_tidelog']\n"
    assert done.stderr == f"Spark runs on Java 17 in {java_home} (JAVA_HOME).\n"


def test_tidelog_spark_names_a_missing_script() -> None:
    done = tidelog("spark", "missing.py")
    assert done.returncode == 2
    assert "missing.py" in done.stderr


def test_start_context_gives_no_secret_to_java_as_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark")
    secret = {"spark.hadoop.fs.s3a.secret.key": "moin"}
    shown = {"spark.master": "local[1]"}
    arguments: list[dict[str, str]] = []
    monkeypatch.setattr(
        "pyspark.java_gateway.launch_gateway", lambda conf, _streams: arguments.append(dict(conf.getAll()))
    )
    monkeypatch.setattr(pyspark, "SparkContext", lambda conf, gateway: (dict(conf.getAll()), gateway))
    started: object = start_context(shown | secret)
    assert started == (shown | secret, None)
    assert arguments == [shown]
