"""The command `tidelog`: a broker in the foreground, and what to ask about it."""

from __future__ import annotations

from tidelog.kernel.cli.main import main

__all__ = ["main"]
