"""Meters in the text format of Prometheus, version 0.0.4.

Source: the page "Exposition formats" of the Prometheus documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.kernel.seams.meters import Labels, MeterFamily

PROMETHEUS_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(families: Iterable[MeterFamily]) -> bytes:
    """Return the text, blocking."""
    return "".join(line for family in families for line in _lines(family)).encode()


def _lines(family: MeterFamily) -> Iterator[str]:
    name, kind, text, samples = family
    if not samples:
        return
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {escaped}\n# TYPE {name} {kind.value}\n"
    for value, labels in samples:
        # Whole numbers without a point: a float would lose digits of large counts.
        shown = (
            str(int(value)) if value == value and abs(value) < 2**63 and value == int(value) else repr(value)
        )
        yield f"{name}{_shown(labels)} {shown}\n"


def _shown(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
