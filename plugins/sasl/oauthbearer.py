"""OAUTHBEARER (RFC 7628): a client shows a token of an identity provider (KIP-255, KIP-768).

Tokens are signed JWTs, checked with the keys of the provider. Those without a signature, which anyone can
write, are only taken where Kafka's `OAuthBearerUnsecuredValidatorCallbackHandler` is configured by name.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from tidelog.kernel.config.listener_keys import name_for_mechanism
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.requests import ANONYMOUS, Principal
from tidelog.kernel.seams.sasl import (
    Authenticated,
    AuthenticationFailed,
    SaslContext,
    SaslExchange,
    SaslMechanism,
)
from tidelog.plugins.credentials.jaas import parse_jaas
from tidelog.plugins.credentials.oauthbearer import (
    BadOAuthMessage,
    OAuthClientFirst,
    error_message,
    parse_oauth_client_first,
)
from tidelog.plugins.sasl import keys
from tidelog.plugins.sasl.access_tokens import (
    AccessToken,
    BadAccessToken,
    TokenRules,
    UnknownSigner,
    unsecured_claims,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.wire import Peer
    from tidelog.plugins.sasl.jwks import KeySet

T = TypeVar("T")

_log = logging.getLogger(__name__)

NAME: Final = "OAUTHBEARER"


class OAuthBearer(SaslMechanism):
    """OAUTHBEARER on one listener."""

    def __init__(self, context: SaslContext) -> None:
        """Read how tokens are checked.

        Raises:
            ConfigError: a key is missing, or cannot be used.
        """
        self._context = context
        self._key_set: KeySet | None = None
        handler = self._value(keys.SASL_SERVER_CALLBACK_HANDLER_CLASS) or ""
        if handler.endswith(keys.UNSECURED_HANDLER):
            self._rules = self._unsecured_rules()
            self._claims_of: Callable[[str], Mapping[str, object]] = unsecured_claims
            _log.warning(
                "listener %s: OAUTHBEARER takes tokens without a signature, so that every client may be any "
                "user; %s is for development",
                context.listener,
                keys.UNSECURED_HANDLER,
            )
        else:
            self._rules = self._signed_rules()
            self._key_set = self._keys_of_provider()
            self._claims_of = self._key_set.claims_of

    def _value(self, key: ConfigKey[T]) -> T:
        return self._context.config.of_mechanism(key, self._context.listener, NAME)

    def _name(self, key: ConfigKey[object]) -> str:
        return name_for_mechanism(key, self._context.listener, NAME)

    def _signed_rules(self) -> TokenRules:
        audiences = self._value(keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE)
        issuer = self._value(keys.SASL_OAUTHBEARER_EXPECTED_ISSUER)
        for expected, key, waiver in (
            (
                audiences,
                keys.SASL_OAUTHBEARER_EXPECTED_AUDIENCE,
                keys.SASL_OAUTHBEARER_ALLOW_UNVERIFIED_AUDIENCE,
            ),
            (issuer, keys.SASL_OAUTHBEARER_EXPECTED_ISSUER, keys.SASL_OAUTHBEARER_ALLOW_UNVERIFIED_ISSUER),
        ):
            if not expected and not self._value(waiver):
                raise ConfigError(
                    f"listener {self._context.listener}: OAUTHBEARER needs {key.name}, so that tokens for "
                    f"other services are refused, or {waiver.name}=true"
                )
        return TokenRules(
            audiences=audiences,
            issuer=issuer,
            scopes=frozenset(self._value(keys.OAUTHBEARER_REQUIRED_SCOPE)),
            scope_claim=self._value(keys.SASL_OAUTHBEARER_SCOPE_CLAIM_NAME),
            subject_claim=self._value(keys.SASL_OAUTHBEARER_SUB_CLAIM_NAME),
            skew_s=self._value(keys.SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS),
        )

    def _unsecured_rules(self) -> TokenRules:
        line = self._value(keys.SASL_JAAS_CONFIG)
        options: Mapping[str, str] = {} if line is None else parse_jaas(line.value).options
        skew = options.get("unsecuredValidatorAllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdigit()):
            raise ConfigError(
                f"{self._name(keys.SASL_JAAS_CONFIG)}: unsecuredValidatorAllowableClockSkewMs is no number "
                "of milliseconds"
            )
        scopes = options.get("unsecuredValidatorRequiredScope", "").split()
        return TokenRules(
            scopes=frozenset((*scopes, *self._value(keys.OAUTHBEARER_REQUIRED_SCOPE))),
            scope_claim=options.get("unsecuredValidatorScopeClaimName", "scope"),
            subject_claim=options.get("unsecuredValidatorPrincipalClaimName", "sub"),
            skew_s=int(skew[:12]) / 1000,
            has_to_be_dated=False,
        )

    def _keys_of_provider(self) -> KeySet:
        url_key = keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL
        url = self._value(url_key)
        if url is None:
            raise ConfigError(
                f"listener {self._context.listener}: OAUTHBEARER needs {self._name(url_key)}, the address of "
                "the identity provider's keys (https://… or file:///…)"
            )
        try:
            from tidelog.plugins.sasl.jwks import KeySet, UnreadableKeys
        except ModuleNotFoundError as error:
            raise ConfigError(
                'OAUTHBEARER needs PyJWT to check signatures: pip install "tidelog[oauth]"'
            ) from error
        try:
            return KeySet(
                url,
                refresh_s=self._value(keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS) / 1000,
                backoff_s=self._value(keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS) / 1000,
                max_backoff_s=self._value(keys.SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS) / 1000,
            )
        except UnreadableKeys as error:
            raise ConfigError(f"{self._name(url_key)}: {error}") from error

    def start(self, peer: Peer) -> SaslExchange:
        """Begin an authentication."""
        return OAuthBearerExchange(self)

    async def run(self) -> None:
        """Read the keys of the identity provider again and again."""
        if self._key_set is not None:
            await self._key_set.run()

    def check_token(self, token: str) -> AccessToken | Awaitable[AccessToken]:
        """Return who has a token; an awaitable while its key may have to be read.

        Raises:
            BadAccessToken: it is not taken.
        """
        try:
            return self._checked(token)
        except UnknownSigner:
            if self._key_set is None:
                raise
            return self._checked_later(token, self._key_set)

    async def _checked_later(self, token: str, key_set: KeySet) -> AccessToken:
        await key_set.wait_for_read()
        return self._checked(token)

    def _checked(self, token: str) -> AccessToken:
        return self._rules.taken(self._claims_of(token), self._context.clock())


class OAuthBearerExchange(SaslExchange):
    """One token of a client; a second one only ends what was refused."""

    def __init__(self, mechanism: OAuthBearer) -> None:
        self._mechanism = mechanism
        self._refusal: AuthenticationFailed | None = None

    def respond(self, token: bytes) -> bytes | Authenticated | Awaitable[bytes | Authenticated]:
        """Check a token."""
        if self._refusal is not None:
            raise self._refusal
        try:
            first = parse_oauth_client_first(token)
        except BadOAuthMessage as error:
            raise AuthenticationFailed(
                "Invalid OAUTHBEARER client first message", f"a malformed message: {error}"
            ) from error
        try:
            found = self._mechanism.check_token(first.token)
        except BadAccessToken as error:
            return self._refused(error)
        return self._later(found, first) if isinstance(found, Awaitable) else _authenticated(found, first)

    async def _later(
        self, checking: Awaitable[AccessToken], first: OAuthClientFirst
    ) -> bytes | Authenticated:
        try:
            return _authenticated(await checking, first)
        except BadAccessToken as error:
            return self._refused(error)

    def _refused(self, error: BadAccessToken) -> bytes:
        """Return the error for the client, which answers once more before the end (RFC 7628, 3.2.3)."""
        message = error_message(error.status, error.scope)
        self._refusal = AuthenticationFailed(message, f"the access token is not taken: {error}")
        return message.encode()


def _authenticated(found: AccessToken, first: OAuthClientFirst) -> Authenticated:
    if first.authorize_as not in ("", found.user):
        raise AuthenticationFailed(
            f"Authentication failed: Client requested an authorization id ({first.authorize_as}) that is "
            f"different from the token's principal name ({found.user})"
        )
    return Authenticated(Principal(ANONYMOUS.type, found.user), expires_at_ms=found.expires_at_ms)
