"""Credentials of users for SCRAM (RFC 5802, KIP-554): salted passwords, from which none can be recovered."""

from __future__ import annotations

import enum
from typing import NamedTuple


class ScramMechanism(enum.IntEnum):
    """The mechanism of a credential, by its number in the protocol and in the metadata log."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The hash function, as `hashlib` calls it."""
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"


class CredentialKey(NamedTuple):
    """A user, and the number of a mechanism; another broker may have others than `ScramMechanism`."""

    user: str
    mechanism: int


class ScramCredential(NamedTuple):
    """What a broker needs to authenticate a user; its representation has no secrets."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class ScramUpsertion(NamedTuple):
    """A credential to set, whose password the client has salted (RFC 5802's SaltedPassword)."""

    key: CredentialKey
    salt: bytes
    salted_password: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramUpsertion(key={self.key}, iterations={self.iterations})"
