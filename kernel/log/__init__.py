"""The log of a partition, the same above every storage: offsets, validation, producers, epochs, waiters."""

from tidelog.kernel.log.unified_log import UnifiedLog
from tidelog.kernel.seams.partition import AppendOrigin, AppendResult, AppendWaiter, Isolation

__all__ = ["AppendOrigin", "AppendResult", "AppendWaiter", "Isolation", "UnifiedLog"]
