"""Indexes in memory, rebuilt at every start; see docs/storage.md, "Index formats"."""
