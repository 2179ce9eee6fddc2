"""The version of tidelog."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0.dev0"
"""That of pyproject.toml; a process that reads it from the installed files imports 27 modules for that."""
