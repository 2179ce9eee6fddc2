"""Metadata in memory, for tests and short-lived brokers; nothing survives the process."""
