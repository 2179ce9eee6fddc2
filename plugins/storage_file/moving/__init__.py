"""Replica moves: a partition moves to another log directory while it is used (KIP-113); see `moves`."""
