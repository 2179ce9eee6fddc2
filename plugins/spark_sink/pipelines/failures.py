"""Why a query has failed, in a line that a user understands."""

from __future__ import annotations

import re
from typing import Final

_PYTHON_ERROR: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*): (?P<text>.+)$", re.MULTILINE)
_TRACEBACK: Final = "Traceback (most recent call last):"
_MOST_CHARACTERS: Final = 500


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
