"""A log directory: its lock, its identity, its checkpoints, and what waits there for removal."""
