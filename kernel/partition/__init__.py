"""A partition's semantics, the same above every storage: offsets, validation, producers, epochs, waiters."""

from tidelog.kernel.partition.partition import AppendResult, Isolation, Partition
from tidelog.kernel.partition.watermarks import AppendWaiter

__all__ = ["AppendResult", "AppendWaiter", "Isolation", "Partition"]
