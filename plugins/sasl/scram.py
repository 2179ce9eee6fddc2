"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with the credentials of the metadata.

A user that is unknown gets the answers that a wrong password gets, after the same work: a salt that is always
the same for its name, and a failure at the end. With `tokenauth=true` the user is the id of a delegation
token, the password its secret (KIP-48). Source of the checks: Kafka's `ScramSaslServer`.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NoReturn

import trio

from tidelog.kernel.metadata.delegation_tokens import DelegationTokenImage, secret_key_of, token_password
from tidelog.kernel.metadata.scram import CredentialKey, ScramCredential, ScramMechanism
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.sasl import (
    Authenticated,
    AuthenticationFailed,
    SaslContext,
    SaslExchange,
    SaslMechanism,
)
from tidelog.plugins.credentials import scram
from tidelog.plugins.credentials.scram import BadScramMessage, ClientFirst

if TYPE_CHECKING:
    from tidelog.kernel.seams.wire import Peer

MIN_ITERATIONS: Final = 4096
_OTHER_NONCE: Final = "another nonce than that of this exchange"
_NONCE_TWICE: Final = "its own nonce comes twice, as of librdkafka before 2.6.1: the client needs a newer one"
_NONE_YET: Final = ScramCredential(b"", b"", b"", 0)
KNOWN_TOKENS: Final = 10_000
"""So many tokens have credentials in memory, each of some hundred bytes; those of others are made again."""


class Scram(SaslMechanism):
    """One of both mechanisms on one listener."""

    def __init__(self, mechanism: ScramMechanism, context: SaslContext) -> None:
        self.mechanism = mechanism
        self._context = context
        self._secret = secrets.token_bytes(64)
        self._token_secret = secret_key_of(context.config)
        self.token_credential = lru_cache(KNOWN_TOKENS)(self._make_token_credential)
        self._counted: object = None
        self._usual_iterations = MIN_ITERATIONS

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        return ScramExchange(self)

    def credential(self, user: str) -> ScramCredential | None:
        """Return the credential of a user."""
        return self._context.image().credentials.get(CredentialKey(user, self.mechanism))

    def token(self, token_id: str) -> DelegationTokenImage | None:
        """Return a delegation token that lets its holder in, None without one."""
        token = self._context.image().tokens.get(token_id)
        if token is None or self._token_secret is None or token.has_expired(self._context.clock()):
            return None
        return token

    def _make_token_credential(self, token_id: str) -> ScramCredential:
        """Return the credential of a token; takes about 1 ms."""
        password, salt = token_password(self._token_secret or "", token_id), self._salt(token_id)
        salted = scram.salted_password(self.mechanism, password, salt, MIN_ITERATIONS)
        return scram.credential_of(self.mechanism, salted, salt, MIN_ITERATIONS)

    def no_credential(self, user: str, *, by_token: bool = False) -> ScramCredential:
        """Return one for a user or a token that is unknown, which no password fits."""
        salt = self._salt(user)
        key = hmac.digest(self._secret, salt, self.mechanism.hash_name)
        return ScramCredential(salt, key, key, MIN_ITERATIONS if by_token else self._iterations_of_most())

    def _salt(self, name: str) -> bytes:
        digest = hmac.digest(self._secret, name.encode(), "sha512")
        characters = scram.SALT_CHARACTERS
        return "".join(characters[each % len(characters)] for each in digest[: scram.SALT_LENGTH]).encode()

    def _iterations_of_most(self) -> int:
        credentials = self._context.image().credentials
        if credentials is not self._counted:
            self._counted = credentials
            counted = Counter(
                each.iterations for key, each in credentials.items() if key.mechanism == self.mechanism
            )
            self._usual_iterations = counted.most_common(1)[0][0] if counted else MIN_ITERATIONS
        return self._usual_iterations


class ScramExchange(SaslExchange):
    """Two tokens of a client and their answers."""

    def __init__(self, scram_mechanism: Scram) -> None:
        self._scram = scram_mechanism
        self._first: ClientFirst | None = None
        self._server_first = self._nonce = ""
        self._credential = _NONE_YET
        self._is_known = False
        self._token: DelegationTokenImage | None = None

    def respond(self, token: bytes) -> bytes | Authenticated | Awaitable[bytes]:
        """Return salt and iterations for the first token, and the signature for the second."""
        try:
            return self._begin(token) if self._first is None else self._finish(token, self._first)
        except BadScramMessage as error:
            raise AuthenticationFailed(_refusal(self._scram), f"a malformed message: {error}") from error

    def _begin(self, token: bytes) -> bytes | Awaitable[bytes]:
        self._first = first = scram.parse_client_first(token)
        if first.authorize_as not in ("", first.user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if not first.is_by_token:
            return self._server_first_for(first, self._scram.credential(first.user))
        # Who has no token makes the broker compute nothing.
        self._token = self._scram.token(first.user)
        if self._token is None:
            return self._server_first_for(first, None)
        return self._begin_by_token(first)

    async def _begin_by_token(self, first: ClientFirst) -> bytes:
        credential = await trio.to_thread.run_sync(self._scram.token_credential, first.user)
        return self._server_first_for(first, credential)

    def _server_first_for(self, first: ClientFirst, credential: ScramCredential | None) -> bytes:
        # It is made for users that are known, too: otherwise the time of an answer shows which are.
        none = self._scram.no_credential(first.user, by_token=first.is_by_token)
        self._is_known, self._credential = credential is not None, credential or none
        salt, iterations = scram.encoded(self._credential.salt), self._credential.iterations
        self._nonce = first.nonce + scram.new_nonce()
        self._server_first = f"r={self._nonce},s={salt},i={iterations}"
        return self._server_first.encode()

    def _finish(self, token: bytes, first: ClientFirst) -> Authenticated:
        final, mechanism = scram.parse_client_final(token), self._scram.mechanism
        credential = self._credential
        signed = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        is_right = scram.is_proven(mechanism, credential.stored_key, final.proof, signed)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            # As Apache Kafka 4 does; before 3.9 it took a nonce that ends with its own (CVE-2024-56128).
            repeats = final.nonce == first.nonce + self._nonce
            self._refuse(_NONCE_TWICE if repeats else _OTHER_NONCE, first.user)
        if final.channel != first.header.encode():
            self._refuse("another header than that of its first message", first.user)
        if not (self._is_known and is_right):
            kind = "token" if first.is_by_token else "user"
            self._refuse("wrong password" if self._is_known else f"unknown {kind}", first.user)
        if credential.iterations < MIN_ITERATIONS:
            self._refuse(f"a credential with fewer than {MIN_ITERATIONS} iterations", first.user)
        signature = scram.server_signature(mechanism, credential.server_key, signed)
        answer = f"v={scram.encoded(signature)}".encode()
        if self._token is None:
            return Authenticated(Principal(ANONYMOUS.type, first.user), answer)
        # As in Kafka its name alone counts: all who log in are users.
        _, _, owner = self._token.owner.partition(":")
        return Authenticated(Principal(ANONYMOUS.type, owner), answer, self._token.expires_ms, by_token=True)

    def _refuse(self, reason: str, user: str) -> NoReturn:
        raise AuthenticationFailed(_refusal(self._scram), f"{reason} (user {user!r})")


def _refusal(scram_mechanism: Scram) -> str:
    """Return the message for the client, the same for whatever it has done wrong."""
    return (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{scram_mechanism.mechanism.sasl_name}"
    )
