"""A Kafka-protocol broker, built as a plugin microkernel."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0.dev0"
"""A process that reads it from the installed files instead imports 27 modules for that."""
