"""Committed offsets of groups: their service, state, records and expiry."""
