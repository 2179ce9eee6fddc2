"""SASL of a client's connections (KIP-43, KIP-152): the mechanisms, each a generator of tokens.

A generator yields a token for the broker and gets the broker's answer; its end is a login that succeeded.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.plugins.client.errors import SaslRefused
from tidelog.plugins.credentials import scram
from tidelog.plugins.credentials.jaas import JaasEntry, parse_jaas

if TYPE_CHECKING:
    from tidelog.plugins.client.security import SecuritySettings

SaslTokens: TypeAlias = Generator[bytes, bytes, None]
Preparation: TypeAlias = "Callable[[], SaslLogin | None]"

MIN_ITERATIONS: Final = 4096
"""With fewer a password is guessed too quickly by who listens; Kafka's clients refuse them, too."""
MAX_ITERATIONS: Final = 1_000_000
"""About half a second of computing: what a broker may make a client do."""
_PLAIN: Final = "PLAIN"
_OAUTHBEARER: Final = "OAUTHBEARER"
_GSSAPI: Final = "GSSAPI"


def _unprepared(_host: str) -> None:
    """Return that there is nothing to do before a connection."""


@attrs.frozen
class SaslLogin:
    """How connections authenticate: the name of a mechanism, and its generator, made for each connection.

    `preparation` returns for the host of a broker what has to be done in a thread before a connection to it,
    None if that is nothing. It returns the login of that connection, None if that is this one, and raises
    `NoCredentials`.
    """

    mechanism: str
    tokens: Callable[[], SaslTokens] = attrs.field(repr=False)
    preparation: Callable[[str], Preparation | None] = attrs.field(default=_unprepared, repr=False)


def plain_tokens(user: str, password: str) -> SaslTokens:
    """Send user and password as they are (RFC 4616)."""
    yield f"\0{user}\0{password}".encode()


def scram_tokens(
    mechanism: ScramMechanism, user: str, password: str, *, by_token: bool = False
) -> SaslTokens:
    """Prove the password without sending it, and have the broker prove that it knows the user (RFC 5802).

    `by_token`: the user is the id of a delegation token, and the password its secret (KIP-48).

    Raises:
        SaslRefused: the broker breaks the protocol, or has not proven it.
    """
    try:
        yield from _scram_tokens(mechanism, user, password, f",{scram.BY_TOKEN}=true" if by_token else "")
    except scram.BadScramMessage as error:
        raise SaslRefused(f"the broker sent a malformed message: {error}") from error


def _scram_tokens(mechanism: ScramMechanism, user: str, password: str, extensions: str) -> SaslTokens:
    nonce = scram.new_nonce()
    bare = f"n={scram.escaped(user)},r={nonce}{extensions}"
    server_first = yield f"n,,{bare}".encode()
    server = scram.parse_server_first(server_first)
    if not server.nonce.startswith(nonce) or server.nonce == nonce:
        raise SaslRefused("the broker's nonce does not continue that of this client")
    if not MIN_ITERATIONS <= server.iterations <= MAX_ITERATIONS:
        raise SaslRefused(
            f"the broker asks for {server.iterations} iterations, which is not between {MIN_ITERATIONS} and "
            f"{MAX_ITERATIONS}"
        )
    without_proof = f"c={scram.encoded(b'n,,')},r={server.nonce}"
    signed = f"{bare},{server_first.decode()},{without_proof}".encode()
    salted = scram.salted_password(mechanism, password, server.salt, server.iterations)
    proof = scram.client_proof(mechanism, salted, signed)
    server_final = yield f"{without_proof},p={scram.encoded(proof)}".encode()
    signature, error = scram.parse_server_final(server_final)
    if error:
        raise SaslRefused(error)
    expected = scram.server_signature(mechanism, scram.server_key_of(mechanism, salted), signed)
    if not hmac.compare_digest(signature, expected):
        raise SaslRefused("the broker has not proven that it knows this user: it may be another one")


_BY_NAME: Final[Mapping[str, Callable[[str, str], SaslTokens]]] = {
    _PLAIN: plain_tokens,
    **{each.sasl_name: partial(scram_tokens, each) for each in ScramMechanism},
}


_OF_ONE_MECHANISM: Final = {"sasl_oauth": _OAUTHBEARER, "sasl_kerberos": _GSSAPI}


def login_of(settings: SecuritySettings) -> SaslLogin | None:
    """Return how connections authenticate, None without SASL.

    Raises:
        ValueError: the settings have no mechanism of this client, or no user and password for it.
    """
    if not settings.uses_sasl:
        return None
    mechanism = settings.sasl_mechanism or ""
    for name, of_mechanism in _OF_ONE_MECHANISM.items():
        if getattr(settings, name) is not None and mechanism != of_mechanism:
            raise ValueError(f"{name} has no effect with {mechanism}")
    if mechanism == _OAUTHBEARER:
        return _oauth_login(settings)
    if mechanism == _GSSAPI:
        return _kerberos_login(settings)
    tokens = _BY_NAME.get(mechanism)
    if tokens is None:
        known = ", ".join(map(repr, (*_BY_NAME, _OAUTHBEARER, _GSSAPI)))
        raise ValueError(f"sasl_mechanism is {settings.sasl_mechanism!r}: set one of {known}")
    user, password, options = _credentials(settings, mechanism)
    return SaslLogin(mechanism, partial(tokens, user, password, **options))


def _oauth_login(settings: SecuritySettings) -> SaslLogin:
    # Not at the top: most clients do without what it imports.
    from tidelog.plugins.client.oauth import access_tokens_of

    if settings.sasl_oauth is None:
        raise ValueError(
            "OAUTHBEARER needs sasl_oauth, or Kafka's key sasl.oauthbearer.token.endpoint.url: where its "
            "access tokens are from"
        )
    _refuse_passwords(settings, _OAUTHBEARER)
    tokens = access_tokens_of(settings.sasl_oauth)
    return SaslLogin(_OAUTHBEARER, tokens.tokens, lambda _host: None if tokens.is_fresh else tokens.refresh)


def _kerberos_login(settings: SecuritySettings) -> SaslLogin:
    # Not at the top: most clients do without what it imports.
    from tidelog.plugins.client.kerberos import tickets_of

    if settings.sasl_kerberos is None:
        raise ValueError(
            "GSSAPI needs sasl_kerberos, or Kafka's keys sasl.kerberos.service.name and sasl.jaas.config: "
            "whose tickets it shows"
        )
    _refuse_passwords(settings, _GSSAPI)
    tickets = tickets_of(settings.sasl_kerberos)

    def prepared(host: str) -> SaslLogin:
        tokens = tickets.tokens_for(host)
        return SaslLogin(_GSSAPI, lambda: tokens)

    return SaslLogin(_GSSAPI, _unprepared_tokens, lambda host: lambda: prepared(host))


def _unprepared_tokens() -> SaslTokens:
    raise AssertionError("each connection has a token of its own")


def _refuse_passwords(settings: SecuritySettings, mechanism: str) -> None:
    for name in ("sasl_plain_username", "sasl_plain_password", "sasl_jaas_config"):
        if getattr(settings, name) is not None:
            raise ValueError(f"{name} has no effect with {mechanism}")


def _credentials(settings: SecuritySettings, mechanism: str) -> tuple[str, str, dict[str, bool]]:
    user, password = settings.sasl_plain_username, settings.sasl_plain_password
    options: dict[str, bool] = {}
    if settings.sasl_jaas_config is not None:
        entry = parsed_jaas(settings.sasl_jaas_config)
        wanted = "PlainLoginModule" if mechanism == _PLAIN else "ScramLoginModule"
        if entry.module_name != wanted:
            raise ValueError(f"sasl_jaas_config has {entry.module}, and {mechanism} needs {wanted}")
        user, password = entry.options.get("username"), entry.options.get("password")
        if wanted != "PlainLoginModule":
            options["by_token"] = entry.options.get(scram.BY_TOKEN, "").lower() == "true"
    if not user or password is None:
        raise ValueError(
            f"{mechanism} needs a user and a password: sasl_plain_username and sasl_plain_password, or "
            "sasl_jaas_config"
        )
    return user, password, options


def parsed_jaas(text: str) -> JaasEntry:
    """Return the login module of `sasl.jaas.config`.

    Raises:
        ValueError: it has another form; the text has nothing of what may be a password.
    """
    try:
        return parse_jaas(text)
    except ValueError as error:
        raise ValueError(f"sasl_jaas_config {error}") from None
