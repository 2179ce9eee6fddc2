"""What the broker and the process of a pipeline write to each other: a JSON object in each line.

The broker writes the pipeline first (`Pipeline.to_text`), then `NEWS` whenever there is any, at last `STOP`.
When it has died, its end of the pipe is closed. The process writes reports.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal

import attrs

NEWS: Final = "news"
"""Something is committed, or partitions have come or gone."""
STOP: Final = "stop"
"""No micro-batch is to begin any more."""

DriverState = Literal["starting", "running", "stopping", "failed"]

_PYTHON_ERROR: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*): (?P<text>.+)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_MOST_CHARACTERS: Final = 500


@attrs.frozen
class Report:
    """What the process of a pipeline writes.

    Attributes:
        state: what it does now
        error: why it has failed
        position: offsets by topic and partition that are delivered, as in Spark's checkpoint
        batch: number of the last micro-batch
        batch_rows: records in it
        batch_ms: how long it took, in milliseconds
        batch_time: when it began, in ISO's form, in UTC
    """

    state: DriverState
    error: str | None = None
    position: dict[str, Any] | None = None
    batch: int | None = None
    batch_rows: int | None = None
    batch_ms: int | None = None
    batch_time: str | None = None

    def details(self) -> dict[str, str | int]:
        """Return what a user wants to see, by the names that `tidelog sinks` shows."""
        found = {
            "process": self.state,
            "batch": self.batch,
            "batch_rows": self.batch_rows,
            "batch_ms": self.batch_ms,
            "batch_time": self.batch_time,
        }
        return {name: value for name, value in found.items() if value is not None}

    def to_line(self) -> str:
        """Return it as a line."""
        return json.dumps(attrs.asdict(self, filter=lambda _, value: value is not None)) + "\n"

    @classmethod
    def from_line(cls, line: bytes | str) -> Report:
        """Return the report in a line; what a newer process adds is left out.

        Raises:
            ValueError: it is none.
        """
        try:
            found: object = json.loads(line)
        except ValueError:
            found = None
        if not isinstance(found, dict) or "state" not in found:
            raise ValueError(f"the process of the pipeline writes {line[:80]!r}, which is no report")
        known = {field.name for field in attrs.fields(cls)}
        return cls(**{name: value for name, value in found.items() if name in known})


def explain(error: BaseException) -> str:
    """Return the cause of an error: of what Spark wraps, the exception in Python or the first line."""
    text = str(error).strip()
    if _TRACEBACK in text:
        raised = _python_error(text)
        if raised:
            return raised[:_MOST_CHARACTERS]
    first = text.splitlines()[0] if text else "no reason is given"
    name = type(error).__name__
    return (first if first.startswith(("[", name)) else f"{name}: {first}")[:_MOST_CHARACTERS]


def _python_error(text: str) -> str | None:
    """Return the line that ends the first traceback in a text."""
    lines = text.partition(_TRACEBACK)[2].splitlines()
    for line in lines:
        stripped = line.strip()
        if line and not line.startswith(" ") and (found := _PYTHON_ERROR.match(stripped)):
            return f"{found['type'].rpartition('.')[2]}: {found['text']}"
    return None
