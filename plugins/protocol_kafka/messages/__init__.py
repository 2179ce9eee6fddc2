"""Kafka's messages, a file per API, their headers and frames, and the table of error codes.

Importing this package imports no message: `api` has the table that leads to them.
"""
