"""docs/examples: packages that are short, use what is public alone, and pass their suites beside a wheel."""

from __future__ import annotations

import ast
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.docs.examples import DOCS
from tests.docs.test_hooks_page import imports_in, public
from tests.fresh_environment import FreshEnvironment
from tests.tables import for_each
from tidelog import kernel
from tidelog.kernel.plugins.interface import INTERFACE
from tidelog.kernel.plugins.loaded import NAMED_SEAMS
from tidelog.kernel.testing.installed import installed_plugins
from tidelog.kernel.testing.suites import DEFAULTS

PACKAGES = sorted(path.parent for path in (DOCS / "examples").glob("*/pyproject.toml"))
PAGE = (DOCS / "plugins.md").read_text()
MOST_LINES = 150


def plugin_of(package: Path) -> Path:
    """The module with the hooks, as the entry point names it."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    (module,) = project["entry-points"]["tidelog"].values()
    return package / f"{module}.py"


def test_the_page_lists_all_packages() -> None:
    listed = re.findall(r"^\| `docs/examples/([\w-]+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == [package.name for package in PACKAGES]


@for_each("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_is_short_and_whole(package: Path) -> None:
    for module in package.glob("*.py"):
        assert len(module.read_text().splitlines()) < MOST_LINES, module
    project = tomllib.loads((package / "pyproject.toml").read_text())
    assert project["project"]["name"] == package.name
    own = {module.stem for module in package.glob("*.py") if not module.stem.startswith("test_")}
    assert set(project["tool"]["setuptools"]["py-modules"]) == own
    assert (package / "README.md").read_text().startswith(f"# {package.name}\n")
    assert list(package.glob("test_*.py"))


@for_each("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_imports_only_what_is_public_and_states_the_interface(package: Path) -> None:
    whole = [module for module in public() if module != "tidelog.kernel"]
    for path in package.glob("*.py"):
        for module, names in imports_in(path.read_text()):
            if module == "tidelog.kernel":
                assert set(names) <= set(kernel.__all__), path
            else:
                assert any(f"{module}.".startswith(f"{each}.") for each in whole), f"{path}: {module}"
    stated = [
        ast.literal_eval(node.value)
        for node in ast.parse(plugin_of(package).read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "TIDELOG_INTERFACE"
    ]
    assert stated == [str(INTERFACE)]


def test_each_seam_has_implementations_that_one_line_chooses() -> None:
    """Those of the table: offered by installed plugins, or by examples."""
    section = PAGE.partition("| seam | implementations |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| ([\w ]+) \| (.*) \| [^|]* \|$", section, re.MULTILINE)
    assert [seam for seam, _ in rows] == [
        seam for seam in dict(rows) if seam in {NAMED_SEAMS[hook] for hook in DEFAULTS}
    ]
    assert dict(rows).keys() == {NAMED_SEAMS[hook] for hook in DEFAULTS}
    examples = (DOCS / "hooks.md").read_text() + "".join(plugin_of(each).read_text() for each in PACKAGES)
    built_in = {"transport": ["PLAINTEXT"]}
    for hook in DEFAULTS:
        seam = NAMED_SEAMS[hook]
        shown = dict(rows)[seam]
        offered = {
            str(getattr(item, "name", item)) for _, items in installed_plugins().ask(hook) for item in items
        }
        offered |= set(built_in.get(seam, ()))
        own = re.findall(r"(?<!_)`([\w-]+)`(?!_)", shown)
        assert set(own) == offered, seam
        ours = re.findall(r"_`([\w-]+)`_", shown)
        assert [name for name in ours if f'name = "{name}"' not in examples] == [], seam
        assert len(own) + len(ours) >= 2, seam


@pytest.mark.long
def test_packages_pass_their_suites_beside_the_wheel(tmp_path: Path) -> None:
    environment = FreshEnvironment.with_tidelog(tmp_path / "environment")
    copies = [Path(shutil.copytree(each, tmp_path / "examples" / each.name)) for each in PACKAGES]
    environment.install(copies)
    for copy in copies:
        # What was installed is tested, not what lies beside the tests.
        for module in copy.glob("*.py"):
            if not module.stem.startswith("test_"):
                module.unlink()
    options = ("-q", "-p", "no:cacheprovider", "-o", "trio_mode=true", "--import-mode=importlib")
    printed = environment.run("-m", "pytest", *options, *map(str, copies), folder=tmp_path)
    assert " passed" in printed
    listed = environment.run("-m", "tidelog.kernel", "plugins", folder=tmp_path)
    assert [each.name for each in PACKAGES if plugin_of(each).stem not in listed] == []
