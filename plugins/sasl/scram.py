"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), with the credentials of the metadata.

A user that is unknown gets the answers that a wrong password gets: a salt that is always the same for its
name, and a failure at the end. Source of the checks: Kafka's `ScramSaslServer`.
"""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Final, NoReturn

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


class Scram(SaslMechanism):
    """One of both mechanisms on one listener."""

    def __init__(self, mechanism: ScramMechanism, context: SaslContext) -> None:
        self.mechanism = mechanism
        self._context = context
        self._secret = secrets.token_bytes(64)
        self._counted: object = None
        self._usual_iterations = MIN_ITERATIONS

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        return ScramExchange(self)

    def credential(self, user: str) -> ScramCredential | None:
        """Return the credential of a user."""
        return self._context.image().credentials.get(CredentialKey(user, self.mechanism))

    def no_credential(self, user: str) -> ScramCredential:
        """Return one for a user that is unknown, which no password fits."""
        digest = hmac.digest(self._secret, user.encode(), "sha512")
        characters = scram.SALT_CHARACTERS
        salt = "".join(characters[each % len(characters)] for each in digest[: scram.SALT_LENGTH])
        key = hmac.digest(self._secret, digest, self.mechanism.hash_name)
        return ScramCredential(salt.encode(), key, key, self._iterations_of_most())

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
        self._credential: ScramCredential | None = None

    def respond(self, token: bytes) -> bytes | Authenticated:
        """Return salt and iterations for the first token, and the signature for the second."""
        try:
            return self._begin(token) if self._first is None else self._finish(token, self._first)
        except BadScramMessage as error:
            raise AuthenticationFailed(_refusal(self._scram), f"a malformed message: {error}") from error

    def _begin(self, token: bytes) -> bytes:
        self._first = first = scram.parse_client_first(token)
        if first.authorize_as not in ("", first.user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._credential = self._scram.credential(first.user)
        shown = self._credential or self._scram.no_credential(first.user)
        self._nonce = first.nonce + scram.new_nonce()
        self._server_first = f"r={self._nonce},s={scram.encoded(shown.salt)},i={shown.iterations}"
        return self._server_first.encode()

    def _finish(self, token: bytes, first: ClientFirst) -> Authenticated:
        final, mechanism = scram.parse_client_final(token), self._scram.mechanism
        credential = self._credential or self._scram.no_credential(first.user)
        signed = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        is_right = scram.is_proven(mechanism, credential.stored_key, final.proof, signed)
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            # As Apache Kafka 4 does; before 3.9 it took a nonce that ends with its own (CVE-2024-56128).
            repeats = final.nonce == first.nonce + self._nonce
            self._refuse(_NONCE_TWICE if repeats else _OTHER_NONCE, first.user)
        if final.channel != first.header.encode():
            self._refuse("another header than that of its first message", first.user)
        if self._credential is None or not is_right:
            self._refuse("unknown user" if self._credential is None else "wrong password", first.user)
        if credential.iterations < MIN_ITERATIONS:
            self._refuse(f"a credential with fewer than {MIN_ITERATIONS} iterations", first.user)
        signature = scram.server_signature(mechanism, credential.server_key, signed)
        answer = f"v={scram.encoded(signature)}".encode()
        return Authenticated(Principal(ANONYMOUS.type, first.user), answer)

    def _refuse(self, reason: str, user: str) -> NoReturn:
        raise AuthenticationFailed(_refusal(self._scram), f"{reason} (user {user!r})")


def _refusal(scram_mechanism: Scram) -> str:
    """Return the message for the client, the same for whatever it has done wrong."""
    return (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism "
        f"{scram_mechanism.mechanism.sasl_name}"
    )
