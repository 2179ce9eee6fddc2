"""SCRAM credentials, stored in the metadata: which are accepted, and what is stored of them.

Source: RFC 5802, section 3; the limits are those of Apache Kafka 4.4's controller.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio

from tidelog.kernel.errors import (
    BrokerError,
    DuplicateResource,
    ResourceNotFound,
    StorageError,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from tidelog.kernel.pace import Pace
from tidelog.kernel.seams.scram import CredentialKey, ScramCredential, ScramMechanism, ScramUpsertion

if TYPE_CHECKING:
    from tidelog.kernel.seams.metadata import MetadataStore

_log = logging.getLogger(__name__)

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
MAX_SECRET_BYTES: Final = 1024
"""Limit of a salt and of a salted password, which has 32 or 64 bytes; Kafka has no such limit."""


class ScramCredentials:
    """The credentials of the cluster; see `tidelog.kernel.seams.scram`."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._changing = trio.Lock()

    def all(self) -> Mapping[CredentialKey, ScramCredential]:
        """Return a view of all credentials."""
        return self._metadata.scram_credentials()

    async def alter(
        self, deletions: Sequence[CredentialKey], upsertions: Sequence[ScramUpsertion]
    ) -> Mapping[str, BrokerError | None]:
        """Delete and set credentials, durably; return the result of each user."""
        async with self._changing:
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
                            raise DuplicateResource(
                                "A user credential cannot be altered twice in the same request"
                            )
                        changes[key.user] = key, self._checked(key, upsertion)
                        results[key.user] = None
                    except BrokerError as error:
                        results[key.user] = error
                await pace.turn()
            await self._write(dict(changes.values()))
        return results

    def _checked(self, key: CredentialKey, upsertion: ScramUpsertion | None) -> ScramCredential | None:
        """Return the credential to store, None to delete it.

        Raises:
            BrokerError: the change is refused.
        """
        mechanism = _mechanism(key)
        if upsertion is not None:
            _check_secrets(upsertion)
            return stored_credential(upsertion, mechanism)
        if key not in self.all():
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return None

    async def _write(self, changes: Mapping[CredentialKey, ScramCredential | None]) -> None:
        if not changes:
            return
        try:
            await self._metadata.alter_scram_credentials(changes)
        except (OSError, StorageError) as error:
            raise StorageError(f"SCRAM credentials cannot be changed: {error}") from error
        _log.info("changed the SCRAM credentials of %d users", len({key.user for key in changes}))


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
