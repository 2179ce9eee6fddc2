"""Log directories: locks, ids, checkpoints, placement, failures and deferred deletion."""
