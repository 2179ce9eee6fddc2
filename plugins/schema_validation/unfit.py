"""The error of a value that does not fit its schema."""

from __future__ import annotations


class Unfit(Exception):
    """The value does not fit; the message is for the client that sent it."""
