"""Coordinators of groups, committed offsets and transactions: durable (`classic`) or in memory (`memory`)."""
