"""What the distribution is made of: every package, nothing else, and a light plain install."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from email.parser import HeaderParser
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.fresh_environment import PURE, SOURCES, built_wheel, copy_of_sources
from tests.tables import for_each
from tidelog import __version__

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Where Spark looks for a data source: among the packages with a name like this one.
DISCOVERY = Path("plugins/spark_sink/discovery")

METADATA = f"tidelog-{__version__}.dist-info"
# What a plain broker must never pull in: Spark, and the heavy parts that come with it.
HEAVY = {"pandas", "py4j", "pyarrow", "pyspark"}

# Modules that run beside optional parts, and the optional parts they may import.
OPTIONAL_IMPORTS = {
    "kernel/testing": {"hypothesis", "pytest", "pytest-trio"},
    "testing/pytest_plugin.py": {"pytest"},
    "plugins/client/consumer/arrow_tables.py": {"pyarrow"},
    "plugins/spark_sink": {"pyarrow", "pyspark"},
    "plugins/zookeeper": {"kazoo"},
    "plugins/opentelemetry": {
        "opentelemetry-api",
        "opentelemetry-exporter-otlp-proto-http",
        "opentelemetry-sdk",
    },
    "plugins/protocol_http": {"h11", "wsproto"},
    "plugins/sasl/jwks.py": {"pyjwt"},
    "plugins/schema_validation/conformance.py": {"pytest"},
    "plugins/tls/conformance.py": {"pytest"},
}


@cache
def distributions() -> Mapping[str, list[str]]:
    """Import name → the installed distributions that bring it."""
    return packages_distributions()


def python_files() -> list[Path]:
    return sorted(path for source in SOURCES for path in (ROOT / source).rglob("*.py"))


def installed_path(path: Path) -> PurePosixPath:
    """Where a wheel has a file of the sources."""
    relative = path.relative_to(ROOT)
    is_found_by_spark = relative.is_relative_to(DISCOVERY)
    return PurePosixPath(relative.relative_to(DISCOVERY) if is_found_by_spark else "tidelog" / relative)


def requirement_names(requirements: list[str], extra: str = "") -> set[str]:
    """Canonical names of the requirements that apply to an installation with this one extra, or with none."""
    parsed = [Requirement(line) for line in requirements]
    return {
        canonicalize_name(requirement.name)
        for requirement in parsed
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
    }


def third_party_imports(path: Path) -> set[str]:
    """Top-level names of what a file imports, anywhere in it, beside the standard library and tidelog."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            names.add(node.module)
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"tidelog"}


@for_each("path", python_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_the_plain_install_brings(path: Path) -> None:
    allowed = requirement_names(PROJECT["project"]["dependencies"])
    for folder, optional in OPTIONAL_IMPORTS.items():
        if path.is_relative_to(ROOT / folder):
            allowed |= optional
    for module in third_party_imports(path):
        providers = {canonicalize_name(name) for name in distributions().get(module, [module])}
        assert providers & allowed, f"{module} is imported but not in [project] dependencies"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    """A wheel that is built without network."""
    copy = copy_of_sources(tmp_path_factory.mktemp("source"))
    # Folders that are here in every checkout and must not be swept up.
    for name in ("docs", "tests"):
        (copy / name).mkdir()
        (copy / name / "__init__.py").touch()
    return zipfile.Path(built_wheel(copy))


def test_a_wheel_has_every_module_and_the_type_marker_and_nothing_else(wheel: zipfile.Path) -> None:
    expected = {str(installed_path(path)) for path in python_files()} | {
        "tidelog/__init__.py",
        "tidelog/client.py",
        "tidelog/py.typed",
        "tidelog/plugins/protocol_kafka/unread_keys.txt",
        f"{METADATA}/licenses/LICENSE",
    }
    described = {f"{METADATA}/{name}" for name in ("METADATA", "RECORD", "WHEEL")}
    described |= {f"{METADATA}/{name}.txt" for name in ("entry_points", "top_level")}
    files = {name for name in wheel.root.namelist() if not name.endswith("/")}
    assert files == expected | described


def test_an_sdist_has_what_an_operator_needs_and_no_tests(tmp_path: Path) -> None:
    # What decides is `MANIFEST.in`: most of the modules would take seconds, and show nothing.
    released = ("CHANGELOG.md", "SECURITY.md", "deploy/tidelog.service", "docs/operations.md")
    left_out = ("tests/test_packaging.py", "deploy/tidelog.service.pyc")
    built_from = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
    modules = [f"src/tidelog/{name}.py" for name in ("__init__", "kernel/__init__", "kernel/compiled")]
    for name in (*built_from, *modules, *released, left_out[0]):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / left_out[1]).touch()
    build = "from setuptools.build_meta import build_sdist; build_sdist('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, env=PURE, check=True, capture_output=True)
    (built,) = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(built) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {*built_from, *modules, *released} <= names
    assert names.isdisjoint(left_out)


def test_a_plain_install_needs_no_spark(wheel: zipfile.Path) -> None:
    text = (wheel / METADATA / "METADATA").read_text()
    requirements = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    assert not requirement_names(requirements) & HEAVY
    assert {"pyarrow", "pyspark"} <= requirement_names(requirements, extra="spark")


def test_every_plugin_and_the_command_exist_in_the_wheel(wheel: zipfile.Path) -> None:
    files = set(wheel.root.namelist())
    targets = [
        *PROJECT["project"]["entry-points"]["tidelog"].values(),
        *PROJECT["project"]["scripts"].values(),
    ]
    for target in targets:
        module = target.partition(":")[0].replace(".", "/")
        assert files & {f"{module}.py", f"{module}/__init__.py"}, f"{target} names no module"


def test_the_command_runs_from_a_wheel(wheel: zipfile.Path, tmp_path: Path) -> None:
    """As installed for good, not as a link to a checkout: nothing that it loads lies outside the wheel."""
    wheel.root.extractall(tmp_path)
    program = (
        "import runpy, sys\n"
        "sys.argv = ['tidelog', 'plugins']\n"
        "try:\n"
        "    runpy.run_module('tidelog.kernel', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
        "names = sorted(name for name in sys.modules if name.startswith('tidelog.'))\n"
        f"stray = [name for name in names if not sys.modules[name].__file__.startswith({str(tmp_path)!r})]\n"
        "assert names and not stray, stray\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for plugin in PROJECT["project"]["entry-points"]["tidelog"]:
        assert plugin in done.stdout
