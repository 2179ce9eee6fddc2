"""How a client connects: the security protocol, and what TLS and SASL need, named as Kafka's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

import attrs

if TYPE_CHECKING:
    import ssl

    from tidelog.plugins.client.kerberos import KerberosSettings
    from tidelog.plugins.client.oauth import OAuthSettings
    from tidelog.plugins.keystores.tls_stores import TlsStores

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
SECURITY_PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)

_OF_TLS: Final = (
    "ssl_cafile",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_key_password",
    "ssl_context",
    "ssl_stores",
)
_ALONE: Final = ("ssl_context", "ssl_stores")
_OF_SASL: Final = (
    "sasl_mechanism",
    "sasl_plain_username",
    "sasl_plain_password",
    "sasl_jaas_config",
    "sasl_oauth",
    "sasl_kerberos",
)


class SecurityOptions(TypedDict, total=False):
    """Keyword arguments of every client; `SecuritySettings` has what each means."""

    security_protocol: str
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_context: ssl.SSLContext | None
    ssl_stores: TlsStores | None
    sasl_mechanism: str | None
    sasl_plain_username: str | None
    sasl_plain_password: str | None
    sasl_jaas_config: str | None
    sasl_oauth: OAuthSettings | None
    sasl_kerberos: KerberosSettings | None


@attrs.frozen(kw_only=True)
class SecuritySettings:
    """Settings of connections, named as in Kafka's Java client, or else in kafka-python.

    Attributes:
        security_protocol: PLAINTEXT, SSL for TLS, SASL_PLAINTEXT, or SASL_SSL for both
        ssl_cafile: PEM file with the authorities whose brokers are trusted; None for those of the system
        ssl_certfile: PEM file with the client's certificate, which brokers may ask for
        ssl_keyfile: PEM file with its private key; None if that is in `ssl_certfile`
        ssl_key_password: password of the key
        ssl_endpoint_identification_algorithm: https compares the host with the broker's certificate; empty
            accepts any host
        ssl_context: a context of the caller's own, instead of the files
        ssl_stores: stores as Kafka's keys name them, instead of the files
        sasl_mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or GSSAPI
        sasl_plain_username: the user, of PLAIN and SCRAM
        sasl_plain_password: the user's password
        sasl_jaas_config: Kafka's line with both, instead of them; a delegation token has `tokenauth="true"`
        sasl_oauth: where the access tokens of OAUTHBEARER are from (`OAuthSettings`)
        sasl_kerberos: whose tickets GSSAPI shows to which service (`KerberosSettings`)
    """

    security_protocol: str = attrs.field(
        default=PLAINTEXT, validator=attrs.validators.in_(SECURITY_PROTOCOLS)
    )
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: str | None = attrs.field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = attrs.field(
        default="https", validator=attrs.validators.in_(("https", ""))
    )
    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    ssl_stores: TlsStores | None = None
    sasl_mechanism: str | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: str | None = attrs.field(default=None, repr=False)
    sasl_jaas_config: str | None = attrs.field(default=None, repr=False)
    sasl_oauth: OAuthSettings | None = None
    sasl_kerberos: KerberosSettings | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse settings without effect: who sets them expects TLS, or to authenticate.

        Raises:
            ValueError: there are some, or SASL lacks one.
        """
        given = self._given(_OF_TLS)
        if given and not self.uses_tls:
            raise ValueError(f"{given[0]} has no effect with security_protocol={self.security_protocol!r}")
        alone = self._given(_ALONE)
        if alone and len(given) > 1:
            other = next(name for name in given if name != alone[-1])
            raise ValueError(f"{other} has no effect with {alone[-1]}")
        self._check_sasl()

    def _check_sasl(self) -> None:
        given = self._given(_OF_SASL)
        if given and not self.uses_sasl:
            raise ValueError(f"{given[0]} has no effect with security_protocol={self.security_protocol!r}")
        if self.sasl_jaas_config is not None and "sasl_plain_username" in given:
            raise ValueError("sasl_plain_username has no effect with sasl_jaas_config")
        if self.uses_sasl:
            # Not at the top: most clients do without what it imports.
            from tidelog.plugins.client.sasl import login_of

            login_of(self)

    def _given(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self.security_protocol in (SSL, SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        """Return whether connections authenticate before anything else."""
        return self.security_protocol in (SASL_PLAINTEXT, SASL_SSL)

    def security(self) -> SecuritySettings:
        """Return these settings alone."""
        return SecuritySettings(
            **{each.name: getattr(self, each.name) for each in attrs.fields(SecuritySettings)}
        )
