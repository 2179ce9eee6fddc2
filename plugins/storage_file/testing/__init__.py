"""What proves that files survive: a record of every operation, crashes after any of them, unwilling disks.

All of it stands at the seam `tidelog.kernel.disk`, so it works for everything that keeps to it.
"""

from __future__ import annotations

from tidelog.plugins.storage_file.testing.device import Device
from tidelog.plugins.storage_file.testing.failing import DyingProcess, FailingDisk, ProcessDied
from tidelog.plugins.storage_file.testing.interposing import CHANGING, READING
from tidelog.plugins.storage_file.testing.operations import Operation
from tidelog.plugins.storage_file.testing.power_cut import DataFate, NameFate, PowerCut
from tidelog.plugins.storage_file.testing.recording import Recorder
from tidelog.plugins.storage_file.testing.short import ShortDisk

__all__ = [
    "CHANGING",
    "READING",
    "DataFate",
    "Device",
    "DyingProcess",
    "FailingDisk",
    "NameFate",
    "Operation",
    "PowerCut",
    "ProcessDied",
    "Recorder",
    "ShortDisk",
]
