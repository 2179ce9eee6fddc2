"""Retention: deletion of old segments by age and size; see docs/retention.md."""
