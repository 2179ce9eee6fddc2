"""Transactions: a machine of tables and pure functions, and the driver round it."""
