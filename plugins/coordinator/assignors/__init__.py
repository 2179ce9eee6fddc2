"""The server-side assignors that come with the broker."""

from tidelog.plugins.coordinator.assignors.range import RangeAssignor
from tidelog.plugins.coordinator.assignors.uniform import UniformAssignor

__all__ = ["RangeAssignor", "UniformAssignor"]
