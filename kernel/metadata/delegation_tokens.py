"""Delegation tokens (KIP-48, KIP-373): what a broker stores of one, and the secret of its holder.

That secret is computed of the token's id and `delegation.token.secret.key`, so that brokers which share that
key know it, and neither the image nor the metadata log has it.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.kernel.config import Config


class DelegationTokenImage(NamedTuple):
    """A token: principals as text (`User:alice`), and times in milliseconds since the epoch.

    Its holder logs in as `owner`; `requester` is the one who asked for it. The owner and `renewers` may
    move `expires_ms`, up to `max_ms`.
    """

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    expires_ms: int

    def has_expired(self, now_ms: int) -> bool:
        """Return whether its time is over, so that no one may use or renew it."""
        return now_ms > min(self.max_ms, self.expires_ms)

    def is_renewed_by(self, principal: str) -> bool:
        """Return whether a principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers

    def concerns(self, principal: str) -> bool:
        """Return whether a principal owns it, has requested it or may renew it, and so may see it."""
        return principal == self.requester or self.is_renewed_by(principal)


class NewDelegationToken(NamedTuple):
    """A token to create; `max_lifetime_ms` of 0 or less stands for `delegation.token.max.lifetime.ms`."""

    owner: str
    requester: str
    renewers: tuple[str, ...] = ()
    max_lifetime_ms: int = -1


def secret_key_of(config: Config) -> str | None:
    """Return the secret that tokens are made of, None where there are no tokens."""
    # Not at the top: clients use the metadata, and no configuration of brokers.
    from tidelog.kernel.config import keys

    secret = config[keys.DELEGATION_TOKEN_SECRET_KEY]
    return (secret.value or None) if secret is not None else None


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Return the secret of a token, 64 bytes, by which requests name it."""
    return hmac.digest(secret_key.encode(), token_id.encode(), "sha512")


def token_password(secret_key: str, token_id: str) -> str:
    """Return the password that its holder logs in with by SCRAM, where the user is the id."""
    return b64encode(token_hmac(secret_key, token_id)).decode()
