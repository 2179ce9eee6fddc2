"""How a client connects: the security protocol, and what TLS needs, under the names of Kafka's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

import attrs

if TYPE_CHECKING:
    import ssl

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"


class SecurityOptions(TypedDict, total=False):
    """Keyword arguments of every client; `SecuritySettings` has what each means."""

    security_protocol: str
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_context: ssl.SSLContext | None


@attrs.frozen(kw_only=True)
class SecuritySettings:
    """Settings of connections, named as in Kafka's Java client, or else in kafka-python.

    Attributes:
        security_protocol: PLAINTEXT, or SSL for TLS
        ssl_cafile: PEM file with the authorities whose brokers are trusted; None for those of the system
        ssl_certfile: PEM file with the client's certificate, which brokers may ask for
        ssl_keyfile: PEM file with its private key; None if that is in `ssl_certfile`
        ssl_key_password: password of the key
        ssl_endpoint_identification_algorithm: https compares the host with the broker's certificate; empty
            accepts any host
        ssl_context: a context of the caller's own, instead of the files
    """

    security_protocol: str = attrs.field(default=PLAINTEXT, validator=attrs.validators.in_((PLAINTEXT, SSL)))
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_key_password: str | None = attrs.field(default=None, repr=False)
    ssl_endpoint_identification_algorithm: str = attrs.field(
        default="https", validator=attrs.validators.in_(("https", ""))
    )
    ssl_context: ssl.SSLContext | None = attrs.field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        """Refuse settings without effect: who sets them expects TLS.

        Raises:
            ValueError: there are some.
        """
        files = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_key_password")
        given = [name for name in (*files, "ssl_context") if getattr(self, name) is not None]
        if given and not self.uses_tls:
            raise ValueError(f"{given[0]} has no effect with security_protocol={self.security_protocol!r}")
        if self.ssl_context is not None and len(given) > 1:
            raise ValueError(f"{given[0]} has no effect with ssl_context")

    @property
    def uses_tls(self) -> bool:
        """Return whether connections are encrypted."""
        return self.security_protocol == SSL

    def security(self) -> SecuritySettings:
        """Return these settings alone."""
        return SecuritySettings(
            **{each.name: getattr(self, each.name) for each in attrs.fields(SecuritySettings)}
        )
