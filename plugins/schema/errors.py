"""Errors of encoding and decoding messages."""

from __future__ import annotations


class CodecError(Exception):
    """A message cannot be encoded or decoded; the text names message, version, field and reason.

    Attributes:
        message: name of the message's class
        version: API version of the encoding
        field: path to the field, such as `topics[3].name`; empty for the message as a whole
        reason: why the field is invalid
    """

    def __init__(self, message: str, version: int, field: str, reason: str) -> None:
        self.message = message
        self.version = version
        self.field = field
        self.reason = reason
        place = f"{message} v{version}" + (f", field {field}" if field else "")
        super().__init__(f"{place}: {reason}")


class DecodeError(CodecError):
    """The peer's bytes are malformed."""


class EncodeError(CodecError):
    """A value of the message cannot be encoded in the version."""


class Malformed(Exception):
    """Compiled code detected an error; the reference codec then raises the `CodecError` with the reason."""


class TooManyElements(Exception):
    """The message is too large to be decoded or encoded in one step."""
