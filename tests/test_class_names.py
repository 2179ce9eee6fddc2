"""A reader who searches for a class finds one: its name is that of no other class in kernel and plugins."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import tidelog.kernel
import tidelog.plugins
import tidelog.testing

PACKAGES = [Path(package.__path__[0]) for package in (tidelog.kernel, tidelog.plugins, tidelog.testing)]


def test_no_two_public_classes_have_the_same_name() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(f"{path.relative_to(package.parent)}:{node.lineno}")
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
