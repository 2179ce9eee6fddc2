"""SCRAM credentials: which are accepted, and what is stored of them.

Source: RFC 5802, section 3; the limits are those of Apache Kafka 4.4's controller.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

from tidelog.kernel.errors import (
    BrokerError,
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from tidelog.kernel.metadata import MetadataDelta, MetadataImage
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential, ScramMechanism, ScramUpsertion
from tidelog.kernel.pace import Pace

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
MAX_SECRET_BYTES: Final = 1024
"""Limit of a salt and of a salted password, which has 32 or 64 bytes; Kafka has no such limit."""


async def decide_credentials(
    image: MetadataImage, deletions: Sequence[CredentialKey], upsertions: Sequence[ScramUpsertion]
) -> tuple[MetadataDelta, Mapping[str, BrokerError | None]]:
    """Return the change that deletes and sets credentials, and the result of each user."""
    wanted: list[tuple[CredentialKey, ScramUpsertion | None]] = [
        *((key, None) for key in deletions),
        *((upsertion.key, upsertion) for upsertion in upsertions),
    ]
    results: dict[str, BrokerError | None] = {}
    changes: dict[str, tuple[CredentialKey, ScramCredential | None]] = {}
    pace = Pace()
    for key, upsertion in wanted:
        # As in Kafka, the first error of a user is its result, and nothing of it is changed.
        if results.get(key.user) is None:
            try:
                if changes.pop(key.user, None):
                    raise DuplicateResource("A user credential cannot be altered twice in the same request")
                changes[key.user] = key, _checked(image, key, upsertion)
                results[key.user] = None
            except BrokerError as error:
                results[key.user] = error
        await pace.turn()
    return MetadataDelta(credentials=dict(changes.values())), results


def _checked(
    image: MetadataImage, key: CredentialKey, upsertion: ScramUpsertion | None
) -> ScramCredential | None:
    """Return the credential to store, None to delete it.

    Raises:
        BrokerError: the change is refused.
    """
    mechanism = _mechanism(key)
    if upsertion is not None:
        _check_secrets(upsertion)
        return stored_credential(upsertion, mechanism)
    if key not in image.credentials:
        raise ResourceNotFound("Attempt to delete a user credential that does not exist")
    return None


def _mechanism(key: CredentialKey) -> ScramMechanism:
    if not key.user:
        raise UnacceptableCredential("Username must not be empty")
    try:
        return ScramMechanism(key.mechanism)
    except ValueError:
        raise UnsupportedSaslMechanism("Unknown SCRAM mechanism") from None


def _check_secrets(upsertion: ScramUpsertion) -> None:
    if upsertion.iterations < MIN_ITERATIONS:
        raise UnacceptableCredential("Too few iterations")
    if upsertion.iterations > MAX_ITERATIONS:
        raise UnacceptableCredential("Too many iterations")
    if not upsertion.salted_password:
        raise UnacceptableCredential("The salted password must not be empty")
    if max(len(upsertion.salt), len(upsertion.salted_password)) > MAX_SECRET_BYTES:
        raise UnacceptableCredential(f"Salt and salted password have at most {MAX_SECRET_BYTES} bytes")


def stored_credential(upsertion: ScramUpsertion, mechanism: ScramMechanism) -> ScramCredential:
    """Return what a broker stores: neither the salted password nor the client key can be derived from it."""
    name = mechanism.hash_name
    client_key = hmac.digest(upsertion.salted_password, b"Client Key", name)
    server_key = hmac.digest(upsertion.salted_password, b"Server Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(upsertion.salt, stored_key, server_key, upsertion.iterations)
