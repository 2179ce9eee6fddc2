"""Test tools for durability: recording of file operations, crashes, power failures and failing disks.

All of them replace the functions of `tidelog.kernel.disk`, so they work for all code that uses it.
"""

from __future__ import annotations

from tidelog.plugins.storage_file.testing.device import Device
from tidelog.plugins.storage_file.testing.failing import DyingProcess, FailingDisk, ProcessDied
from tidelog.plugins.storage_file.testing.interposing import CHANGING, READING
from tidelog.plugins.storage_file.testing.operations import Operation
from tidelog.plugins.storage_file.testing.power_cut import PROCESS_ENDS, DataFate, NameFate, PowerCut
from tidelog.plugins.storage_file.testing.recording import Recorder
from tidelog.plugins.storage_file.testing.short import ShortDisk

__all__ = [
    "CHANGING",
    "PROCESS_ENDS",
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
