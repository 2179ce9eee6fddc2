"""What every kind of coordinator needs: the log of its records, replay, timers, the partition of a name."""

from __future__ import annotations

from tidelog.plugins.coordinator.runtime.batches import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime.state_log import LogReader, StateLog

__all__ = ["LoadedBatch", "LogReader", "StateLog", "StateRecord"]
