"""The modules that are compiled where a C compiler was found at the installation, and how they run here.

The same source runs everywhere: compiled by mypyc it takes a fraction of the time. `setup.py` compiles what
is named here. With `TIDELOG_PURE=1` in its environment an installation compiles nothing, and a process runs
the source though it is compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType
from typing import Final

MODULES: Final = (
    "tidelog.kernel.records.scanner",
    "tidelog.plugins.client.consumer.consumer_record",
    "tidelog.plugins.client.producer.accumulator",
    "tidelog.plugins.client.producer.delivery",
    "tidelog.plugins.client.producer.hashing",
    "tidelog.plugins.client.producer.record_encoder",
)


class _SourceFinder:
    """Finds the sources of the modules, whatever lies beside them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del target
        if name not in MODULES or not path:
            return None
        return spec_from_file_location(name, f"{path[0]}/{name.rpartition('.')[2]}.py")


def run_sources() -> None:
    """Let this process import the sources of the modules instead of what was compiled."""
    sys.meta_path.insert(0, _SourceFinder)


def is_compiled(module: str) -> bool:
    """Return whether this process runs, or would import, the compiled form of a module."""
    spec = find_spec(module)
    return spec is not None and not (spec.origin or "").endswith(".py")


def described() -> str:
    """Return how the modules run here, in a few words."""
    compiled = [module.rpartition(".")[2] for module in MODULES if is_compiled(module)]
    return f"compiled: {', '.join(compiled)}" if compiled else "pure Python"
