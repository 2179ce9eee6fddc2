"""Errors of single records, which end no command: they are reported, counted, and make it fail at the end."""

from __future__ import annotations

import threading
from typing import Final

import click

from tidelog.plugins.client_commands.options import CommandFailed

MOST_REPORTED: Final = 20
"""Errors that are printed: what is wrong with each of a million records is the same."""


class RecordErrors:
    """Errors of one command; any thread may report one."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def report(self, where: str, error: object) -> None:
        """Print one, unless there were many."""
        with self._lock:
            self.count += 1
            if self.count <= MOST_REPORTED:
                click.echo(f"tidelog: {where}: {error}", err=True)

    def fail_if_any(self, what: str) -> None:
        """Raise `CommandFailed` if there were errors; `what` is a verb, such as "sent"."""
        if self.count:
            are = "was" if self.count == 1 else "were"
            raise CommandFailed(f"{self.count} record{'s' * (self.count != 1)} {are} not {what}.")
