"""Ids as Kafka writes them: 16 bytes in 22 characters of URL-safe base64 without padding."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID, uuid4


def new_id() -> str:
    """A random id that does not begin with a dash, which command lines would take for an option."""
    while True:
        text = encode_uuid(uuid4())
        if not text.startswith("-"):
            return text


def encode_uuid(value: UUID) -> str:
    """22 characters of URL-safe base64."""
    return encode_uuid_bytes(value.bytes)


def encode_uuid_bytes(value: bytes) -> str:
    """The same for an id as its 16 bytes."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    """The reverse of `encode_uuid`.

    Raises:
        ValueError: it is no such text.
    """
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no id: {error}") from None
