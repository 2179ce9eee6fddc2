"""The log of a partition in one directory: appends, flushes, drafts, replacement, concurrent operations."""
