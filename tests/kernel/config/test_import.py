"""The configuration is light to import: a plugin that declares keys needs it, and so does every command."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {
    "click",
    "pluggy",
    "rich",
    "tomllib",
    "difflib",
    "trio",
    "json",
    "importlib.metadata",
    "tidelog.kernel.plugins",
}


def test_importing_the_configuration_loads_nothing_heavy() -> None:
    program = "import sys, tidelog.kernel.config; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before = subprocess.run(
        [sys.executable, "-c", "import sys, attrs; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not HEAVY & (set(done.stdout.split()) - set(before.stdout.split()))
