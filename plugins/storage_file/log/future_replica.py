"""Future replica of a partition that moves to another log directory, once it has caught up.

Every change of the log is made in the future replica too. So after a crash at any moment both are complete,
and either may become the partition. Source: KIP-113.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.kernel.errors import BrokerError

if TYPE_CHECKING:
    from tidelog.kernel.seams.storage import PartitionStore

_log = logging.getLogger(__name__)


class FutureReplica:
    """Copy of a log that follows it until a change of the copy fails; from then on it is `behind`."""

    def __init__(
        self, copy: PartitionStore, label: str, on_behind: Callable[[], object] = lambda: None
    ) -> None:
        """`copy` has all that the log has; `label` names it in messages.

        `on_behind()` is called, in any thread, before anything can change that the copy does not have.
        """
        self.copy = copy
        self.behind = False
        self._label = label
        self._on_behind = on_behind

    def follow(self, what: str, change: Callable[[PartitionStore], object]) -> None:
        """Change the copy as the log was changed; an error there is not one of the log."""
        if self.behind:
            return
        try:
            change(self.copy)
        except (OSError, BrokerError, ValueError) as error:
            self.behind = True
            _log.error("%s: the future replica is behind, %s failed: %s", self._label, what, error)
            self._on_behind()
