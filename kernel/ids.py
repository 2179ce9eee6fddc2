"""Ids as Kafka writes them: 16 bytes in 22 characters of URL-safe base64 without padding."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from uuid import UUID, uuid4


def new_id() -> str:
    """Return a random id that does not begin with a dash, which command lines would take for an option."""
    while True:
        text = encode_uuid(uuid4())
        if not text.startswith("-"):
            return text


def encode_uuid(value: UUID) -> str:
    """Encode an id as 22 characters of URL-safe base64."""
    return encode_uuid_bytes(value.bytes)


def encode_uuid_bytes(value: bytes) -> str:
    """Encode an id that is given as its 16 bytes."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    """Return the id that `encode_uuid` encoded.

    Raises:
        ValueError: it is no such text.
    """
    try:
        return UUID(bytes=urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is no id: {error}") from None
