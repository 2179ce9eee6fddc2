"""The partitions of which this broker has a replica: which of them it leads, and the way to their logs."""

from tidelog.kernel.replica.partition import Leadership, Partition
from tidelog.kernel.replica.replica_manager import ReplicaManager

__all__ = ["Leadership", "Partition", "ReplicaManager"]
