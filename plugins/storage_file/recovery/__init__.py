"""Opening of partitions: after a clean stop as they are, after a crash with recovery."""
