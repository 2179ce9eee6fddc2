"""Kafka's messages, a file per API, their headers and frames, and the table of error codes.

Importing this package imports no message: the table in `api` imports them at their first use.
"""
