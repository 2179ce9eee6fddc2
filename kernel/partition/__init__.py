"""A partition's semantics, the same above every storage: offsets, validation, producers, epochs, waiters."""

from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.seams.partition import AppendOrigin, AppendResult, AppendWaiter, Isolation

__all__ = ["AppendOrigin", "AppendResult", "AppendWaiter", "Isolation", "Partition"]
