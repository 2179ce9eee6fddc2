"""The version of the plugin interface: who is refused, what is logged, and the page that has the rules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.kernel.plugins.distributions import HOOK, Folder
from tidelog.kernel.errors import PluginError
from tidelog.kernel.plugins.interface import INTERFACE
from tidelog.kernel.plugins.loaded import NAMED_SEAMS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/plugins.md").read_text()
ROWS = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE)


def stating(version: object) -> str:
    return f"TIDELOG_INTERFACE = {version!r}\n" + HOOK.replace("\n    ", "\n")


def test_a_plugin_for_this_version_is_loaded(folder: Folder) -> None:
    folder.module("one", stating(str(INTERFACE)))
    assert any(each.name == "one" for each in folder.load(extra=("one",)).candidates)


HAS = "of the plugin interface, and this tidelog has 1.0."
REFUSED = {
    "2.0": f"written for version 2.0 {HAS} Install a tidelog with that version, or a release of the plugin "
    "for 1.x, or block it: plugins.blocked=strange",
    "1.9": f"written for version 1.9 {HAS} Install a tidelog with",
    "0.9": f"written for version 0.9 {HAS} Install a release of the plugin for 1.x, or block it",
    "1": "has TIDELOG_INTERFACE = '1', which is no version such as \"1.0\"",
    "01.0": "which is no version",
    "1.0\n": "which is no version",
}


@pytest.mark.parametrize("version", REFUSED)
def test_a_plugin_for_another_version_is_refused_with_the_remedy(folder: Folder, version: str) -> None:
    # Its hook is one that this version does not have: the version is the reason to name.
    folder.module("stranger", stating(version).replace("tidelog_config_keys", "tidelog_moons"))
    folder.distribution("strange-things", strange="stranger")
    with pytest.raises(PluginError) as caught:
        folder.load()
    assert REFUSED[version] in str(caught.value)
    assert "from strange-things 1.0" in str(caught.value)
    assert caught.value.plugin == "strange"


DEPRECATING = """
import sys
from tidelog.kernel import hookimpl, hookspec

@hookspec(warn_on_impl=DeprecationWarning("return tides instead; it ends with version 2.0"))
def tidelog_moons():
    pass

@hookimpl
def tidelog_hookspecs():
    return [sys.modules[__name__]]
"""


def test_a_deprecated_hook_is_logged_with_its_plugin_and_warns_tests(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    folder.module("deprecating", DEPRECATING)
    folder.module("moons", stating("1.0").replace("tidelog_config_keys", "tidelog_moons"))
    with pytest.warns(DeprecationWarning, match="return tides instead"):
        folder.load(extra=("deprecating", "moons"))
    assert [record.getMessage() for record in caplog.records] == [
        "the plugin moons implements tidelog_moons, which is deprecated: return tides instead; it ends with "
        "version 2.0"
    ]


def test_the_page_names_the_version() -> None:
    assert f'TIDELOG_INTERFACE = "{INTERFACE}"' in PAGE


@pytest.mark.parametrize(("file", "test"), ROWS)
def test_each_rule_of_the_page_has_its_test(file: str, test: str) -> None:
    tree = ast.parse((ROOT / file).read_text())
    assert test in {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


@pytest.mark.parametrize("seam", NAMED_SEAMS.values())
def test_the_page_says_what_happens_if_a_thing_of_each_seam_fails(seam: str) -> None:
    table = PAGE.partition("## When a plugin fails\n")[2].partition("\n## ")[0]
    assert any(re.match(rf"\| [^|]*\b{seam}\b[^|]* \|", row) for row in table.splitlines())
