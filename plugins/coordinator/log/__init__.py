"""Where coordinators keep their records: the seam `StateLog`, in an internal topic or nowhere."""

from __future__ import annotations

from tidelog.plugins.coordinator.log.state_log import (
    LoadedBatch,
    LogReader,
    StateLog,
    StateRecord,
)

__all__ = ["LoadedBatch", "LogReader", "StateLog", "StateRecord"]
