"""The clients of the suite, a file for each family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from . import console, golang, jvm, node, python, rust, spark

if TYPE_CHECKING:
    from ..client import Client

CLIENTS: Final[tuple[Client, ...]] = (
    *python.CLIENTS,
    *jvm.CLIENTS,
    *node.CLIENTS,
    *golang.CLIENTS,
    *rust.CLIENTS,
    *spark.CLIENTS,
    *console.CLIENTS,
    jvm.TOOLS,
)
