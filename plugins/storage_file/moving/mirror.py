"""While a copy is equal to its log: whatever changes in the log changes in the copy too.

So at whatever moment a crash comes, both have everything, and it does not matter which one counts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError

if TYPE_CHECKING:
    from tidelog.kernel.records.batch import Buffer
    from tidelog.kernel.seams.storage import AbortedTransaction
    from tidelog.plugins.storage_file.partition_store import FilePartitionStore

_log = logging.getLogger(__name__)


class Mirror:
    """A copy that keeps up until something in it fails; then it is `broken`, and the log goes on alone."""

    def __init__(self, copy: FilePartitionStore, on_broken: Callable[[], object]) -> None:
        """`on_broken()` is called, in any thread, before anything can change that the copy does not have."""
        self.copy = copy
        self.broken = False
        self._on_broken = on_broken

    def append(self, batch: Buffer, base_offset: int, last_offset: int, max_timestamp: int) -> None:
        """What was appended to the log, in the copy."""
        self.do("append", lambda: self.copy.append(batch, base_offset, last_offset, max_timestamp))

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """What was added to the log's transaction index, in that of the copy."""
        self.do("transaction index", lambda: self.copy.add_aborted(aborted))

    def do(self, what: str, change: Callable[[], object]) -> None:
        """Change the copy; an error there is not one of the log."""
        if self.broken:
            return
        try:
            change()
        except (OSError, BrokerError, ValueError) as error:
            self.broken = True
            _log.error("%s: the copy does not keep up, %s failed: %s", self.copy.directory, what, error)
            self._on_broken()
