"""How a waiting source learns of committed records: through a named pipe in the pipeline's folder.

Spark runs the source in a process of its own, which it starts itself. Bytes of the pipe have no content:
one or several mean that there is news. The last one, `STOP`, means that no further micro-batch is to begin.
"""

from __future__ import annotations

import math
import os
import select
from contextlib import suppress
from pathlib import Path
from typing import Final

NEWS: Final = b"n"
STOP: Final = b"s"
_MOST_BYTES: Final = 65536
"""What a pipe holds on Linux: all news is read at once."""


class NewsSender:
    """The end of the pipeline's own process, which makes the pipe and holds it open."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        # For reading, too: without a reader the pipe could not be opened, and news would not be kept in it.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def send(self, what: bytes = NEWS) -> None:
        """Wake the source, now or when it waits next. With a full pipe it is awake already."""
        with suppress(BlockingIOError):
            os.write(self._descriptor, what)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._descriptor)


class NewsReceiver:
    """The end of the source; it opens the pipe at its first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self.stopping = False

    def wait(self, timeout_s: float) -> bool:
        """Wait for news; return whether there is any. The pipe is empty afterwards."""
        if self._descriptor < 0:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK)
        # Not `select`: it takes no descriptor above 1023, and a program on Spark may have that many.
        poller = select.poll()
        poller.register(self._descriptor, select.POLLIN)
        if not poller.poll(0 if self.stopping else math.ceil(timeout_s * 1000)):
            return False
        received = b""
        with suppress(BlockingIOError):
            received = os.read(self._descriptor, _MOST_BYTES)
        # Without a writer the process of the pipeline is gone.
        self.stopping = self.stopping or STOP in received or not received
        return True

    def close(self) -> None:
        """Close the pipe."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
