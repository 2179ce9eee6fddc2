"""Configuration keys of SASL mechanisms, and of users that the configuration names."""

from __future__ import annotations

from typing import Final

from tidelog.kernel.config import ConfigKey, boolean, comma_list, integer, long, nullable, password, string
from tidelog.kernel.config.types import Password, ValueType

SECTION: Final = "users"


def _jaas() -> ValueType[Password]:
    def parse(text: str) -> Password:
        # Not at the top: most brokers have no line of it.
        from tidelog.plugins.credentials.jaas import parse_jaas

        parse_jaas(text)
        return Password(text)

    return ValueType("password", "a line of JAAS", parse)


SASL_JAAS_CONFIG = ConfigKey(
    name="sasl.jaas.config",
    type=nullable(_jaas()),
    default=None,
    per_listener="dynamic",
    per_mechanism=True,
    documentation="Kafka's line of JAAS, for one mechanism of a listener: "
    '`listener.name.NAME.plain.sasl.jaas.config=PlainLoginModule required user_alice="password";` has the '
    "users of PLAIN.",
)
USER_PASSWORD = ConfigKey(
    name="users.NAME.password",
    type=nullable(password()),
    default=None,
    documentation="The password with which the user NAME authenticates by PLAIN, on all listeners.",
)
USER_FILE = ConfigKey(
    name="users.NAME.file",
    type=nullable(string()),
    default=None,
    documentation="A file whose first line is the password, instead of `password`.",
)

UNSECURED_HANDLER: Final = "OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED_HANDLER: Final = "OAuthBearerValidatorCallbackHandler"


def _callback_handler() -> ValueType[str]:
    def parse(text: str) -> str:
        if text.strip().rpartition(".")[2] not in (SIGNED_HANDLER, UNSECURED_HANDLER):
            raise ValueError(
                "is no class that this broker knows: it has no Java, and mechanisms are added by plugins "
                "(tidelog_sasl_mechanisms)"
            )
        return text.strip()

    return ValueType("class", f"Kafka's {SIGNED_HANDLER} or {UNSECURED_HANDLER}", parse)


SASL_SERVER_CALLBACK_HANDLER_CLASS = ConfigKey(
    name="sasl.server.callback.handler.class",
    type=nullable(_callback_handler()),
    default=None,
    per_listener="static",
    per_mechanism=True,
    documentation=f"How OAUTHBEARER checks tokens: {SIGNED_HANDLER} by the keys of an identity provider, as "
    f"without this key; {UNSECURED_HANDLER} takes tokens without a signature, which anyone can write.",
)


SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = ConfigKey(
    name="sasl.oauthbearer.jwks.endpoint.url",
    type=nullable(string()),
    default=None,
    per_listener="static",
    per_mechanism=True,
    documentation="Where OAUTHBEARER reads the public keys of the identity provider (a JWK set): "
    "`https://…`, or `file:///…` for a file.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = ConfigKey(
    name="sasl.oauthbearer.jwks.endpoint.refresh.ms",
    type=long(1),
    default=3_600_000,
    per_listener="static",
    per_mechanism=True,
    documentation="How often the keys of the identity provider are read again, in milliseconds. A token that "
    "names a key which is not there has them read at once, at most every 10 seconds.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = ConfigKey(
    name="sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    type=long(1),
    default=100,
    per_listener="static",
    per_mechanism=True,
    documentation="The wait after the first failure to read the keys of the identity provider, in "
    "milliseconds; it doubles with each further one.",
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = ConfigKey(
    name="sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    type=long(1),
    default=10_000,
    per_listener="static",
    per_mechanism=True,
    documentation="The longest wait between attempts to read the keys of the identity provider, in "
    "milliseconds.",
)
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = ConfigKey(
    name="sasl.oauthbearer.clock.skew.seconds",
    type=integer(0),
    default=30,
    per_listener="static",
    per_mechanism=True,
    documentation="By how many seconds the clock of the identity provider may differ from the broker's.",
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = ConfigKey(
    name="sasl.oauthbearer.expected.audience",
    type=comma_list(),
    default=(),
    per_listener="static",
    per_mechanism=True,
    documentation="Tokens have to be for one of these audiences (claim `aud`).",
)
SASL_OAUTHBEARER_EXPECTED_ISSUER = ConfigKey(
    name="sasl.oauthbearer.expected.issuer",
    type=nullable(string()),
    default=None,
    per_listener="static",
    per_mechanism=True,
    documentation="Tokens have to be from this issuer (claim `iss`).",
)
SASL_OAUTHBEARER_ALLOW_UNVERIFIED_AUDIENCE = ConfigKey(
    name="sasl.oauthbearer.allow.unverified.audience",
    type=boolean(),
    default=False,
    per_listener="static",
    per_mechanism=True,
    documentation="Whether tokens for any audience are taken, where `sasl.oauthbearer.expected.audience` is "
    "not set. Then a token that a client has for another service is one for this broker.",
)
SASL_OAUTHBEARER_ALLOW_UNVERIFIED_ISSUER = ConfigKey(
    name="sasl.oauthbearer.allow.unverified.issuer",
    type=boolean(),
    default=False,
    per_listener="static",
    per_mechanism=True,
    documentation="Whether tokens from any issuer are taken, where `sasl.oauthbearer.expected.issuer` is not "
    "set.",
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = ConfigKey(
    name="sasl.oauthbearer.scope.claim.name",
    type=string(non_empty=True),
    default="scope",
    per_listener="static",
    per_mechanism=True,
    documentation="The claim of tokens with their scopes.",
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = ConfigKey(
    name="sasl.oauthbearer.sub.claim.name",
    type=string(non_empty=True),
    default="sub",
    per_listener="static",
    per_mechanism=True,
    documentation="The claim of tokens with the name of the user.",
)
OAUTHBEARER_REQUIRED_SCOPE = ConfigKey(
    name="oauthbearer.required.scope",
    type=comma_list(),
    default=(),
    per_listener="static",
    per_mechanism=True,
    documentation="Scopes that tokens of OAUTHBEARER need, all of them. Kafka has no such key.",
)
SASL_KERBEROS_SERVICE_NAME = ConfigKey(
    name="sasl.kerberos.service.name",
    type=nullable(string()),
    default=None,
    per_listener="static",
    per_mechanism=True,
    documentation="The service of the broker in Kerberos, which its principal has to begin with.",
)
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = ConfigKey(
    name="sasl.kerberos.principal.to.local.rules",
    type=comma_list(repeated="kept"),
    default=("DEFAULT",),
    per_listener="static",
    per_mechanism=True,
    documentation="Rules that make users of Kerberos principals, the first that fits: `DEFAULT` takes the "
    "first part of those of the broker's realm, `RULE:...` is one of Kafka's, with "
    "an expression of RE2.",
)
