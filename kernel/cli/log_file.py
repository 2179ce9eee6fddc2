"""The file of `log.file`."""

from __future__ import annotations

import sys
from logging import LogRecord
from logging.handlers import WatchedFileHandler


class WatchedLogFile(WatchedFileHandler):
    """Opens the file again when another program has moved it, and never fails the work that logs something.

    Events that cannot be written go to standard error; the file is tried again for each one.
    """

    def emit(self, record: LogRecord) -> None:
        """Write an event."""
        try:
            super().emit(record)
        except OSError:
            self.handleError(record)

    def handleError(self, record: LogRecord) -> None:  # noqa: N802 - the name of the standard library
        """Write it to standard error instead."""
        sys.stderr.write(f"{self.format(record)}\n")
