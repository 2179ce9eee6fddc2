"""The log of coordinators' records: the seam `StateLog`, in an internal topic or discarding what it gets."""

from __future__ import annotations

from tidelog.plugins.coordinator.runtime.batches import LoadedBatch, StateRecord
from tidelog.plugins.coordinator.runtime.state_log import LogReader, StateLog

__all__ = ["LoadedBatch", "LogReader", "StateLog", "StateRecord"]
