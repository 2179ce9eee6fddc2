"""Transactions: a state machine of tables and pure functions, and the service that drives it."""
