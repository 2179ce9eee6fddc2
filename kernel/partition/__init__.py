"""A partition's semantics, the same above every storage: offsets, validation, producers, epochs, waiters."""

from tidelog.kernel.partition.partition import Partition
from tidelog.kernel.seams.partition import AppendResult, AppendWaiter, Isolation

__all__ = ["AppendResult", "AppendWaiter", "Isolation", "Partition"]
