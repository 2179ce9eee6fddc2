"""Plugins of strangers, made on the spot: modules, and distributions that announce them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import attrs
import pytest

from tidelog.kernel.plugins import Plugins, load_plugins
from tidelog.kernel.plugins.discovery import find_candidates

HOOK = """
    from tidelog.kernel import hookimpl
    @hookimpl
    def tidelog_config_keys():
        return []
"""


@attrs.frozen
class Folder:
    """A folder on the import path, to be filled with modules and distributions."""

    path: Path

    def module(self, name: str, source: str = HOOK) -> None:
        """A module of that name."""
        self.path.joinpath(f"{name}.py").write_text(dedent(source))
        importlib.invalidate_caches()

    def distribution(self, name: str, version: str = "1.0", **plugins: str) -> None:
        """An installed distribution that announces plugins: name → module."""
        folder = self.path / f"{name}-{version}.dist-info"
        folder.mkdir()
        folder.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = "".join(f"{plugin} = {module}\n" for plugin, module in plugins.items())
        folder.joinpath("entry_points.txt").write_text(f"[tidelog]\n{lines}")

    def load(self, blocked: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> Plugins:
        """The plugins of this folder alone: the default bundle is blocked."""
        bundle = [
            name for name, candidate in find_candidates().items() if candidate.module.startswith("tidelog.")
        ]
        return load_plugins((*bundle, *blocked), extra)


@contextmanager
def import_folder(path: Path) -> Generator[Folder]:
    """`path` on the import path; modules imported from it are forgotten afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path)
        before = set(sys.modules)
        try:
            yield Folder(path)
        finally:
            for name in set(sys.modules) - before:
                origin = getattr(sys.modules[name], "__file__", None) or ""
                if origin.startswith(str(path)):
                    del sys.modules[name]
