"""What goes wrong between bytes and messages."""

from __future__ import annotations


class CodecError(Exception):
    """A message and its bytes do not go together; the text names message, version, field and reason.

    Attributes:
        message: name of the message's class
        version: API version of the encoding
        field: path to the field, such as `topics[3].name`; empty for the message as a whole
        reason: what is wrong with it
    """

    def __init__(self, message: str, version: int, field: str, reason: str) -> None:
        self.message = message
        self.version = version
        self.field = field
        self.reason = reason
        place = f"{message} v{version}" + (f", field {field}" if field else "")
        super().__init__(f"{place}: {reason}")


class DecodeError(CodecError):
    """The peer's bytes are not an encoding of the message."""


class EncodeError(CodecError):
    """Our message has a value that its version's encoding cannot carry."""


class Malformed(Exception):
    """Compiled code met a fault; the reference codec then finds out which, and raises a `CodecError`."""


class TooManyElements(Exception):
    """The message is too large to be decoded or encoded at once; it may be in steps."""
