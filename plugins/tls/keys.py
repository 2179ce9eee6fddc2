"""Configuration keys of TLS: Kafka's, each also as `listener.name.NAME.KEY` for one listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tidelog.kernel.config import ConfigKey, boolean, choice, comma_list, nullable, password, string
from tidelog.plugins.keystores import STORE_KINDS

if TYPE_CHECKING:
    from tidelog.kernel.config.types import ValueType

_REPLACED: Final[Literal["dynamic"]] = "dynamic"


def _store_kind() -> ValueType[str]:
    return choice(*STORE_KINDS)


SSL_KEYSTORE_TYPE = ConfigKey(
    name="ssl.keystore.type",
    type=_store_kind(),
    default="JKS",
    per_listener=_REPLACED,
    documentation="The format of the key store: PEM, PKCS12 or JKS; as in Java each of the last two is both.",
)
SSL_KEYSTORE_LOCATION = ConfigKey(
    name="ssl.keystore.location",
    type=nullable(string()),
    default=None,
    per_listener=_REPLACED,
    documentation="The file with the private key of the broker and its certificates. It is read again when "
    "it changes.",
)
SSL_KEYSTORE_PASSWORD = ConfigKey(
    name="ssl.keystore.password",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The password of the key store, which one of the type PEM has not.",
)
SSL_KEY_PASSWORD = ConfigKey(
    name="ssl.key.password",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The password of an encrypted private key in PEM, or of the key in a JKS file, where it "
    "has another one than the store.",
)
SSL_KEYSTORE_KEY = ConfigKey(
    name="ssl.keystore.key",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The private key as PEM text, instead of a file.",
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = ConfigKey(
    name="ssl.keystore.certificate.chain",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The certificate of `ssl.keystore.key` as PEM text, followed by those that lead to its "
    "issuer.",
)
SSL_TRUSTSTORE_TYPE = ConfigKey(
    name="ssl.truststore.type",
    type=_store_kind(),
    default="JKS",
    per_listener=_REPLACED,
    documentation="The format of the trust store: PEM, PKCS12 or JKS; each of the last two is both.",
)
SSL_TRUSTSTORE_LOCATION = ConfigKey(
    name="ssl.truststore.location",
    type=nullable(string()),
    default=None,
    per_listener=_REPLACED,
    documentation="The file with the certificates of those who sign certificates of clients. It is read "
    "again when it changes.",
)
SSL_TRUSTSTORE_PASSWORD = ConfigKey(
    name="ssl.truststore.password",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The password of the trust store, which one of the type PEM has not.",
)
SSL_TRUSTSTORE_CERTIFICATES = ConfigKey(
    name="ssl.truststore.certificates",
    type=nullable(password()),
    default=None,
    per_listener=_REPLACED,
    documentation="The certificates of the trust store as PEM text, instead of a file.",
)
SSL_CLIENT_AUTH = ConfigKey(
    name="ssl.client.auth",
    type=choice("required", "requested", "none"),
    default="none",
    per_listener="static",
    documentation="Whether clients present a certificate: `required`, `requested` (one without is "
    "`User:ANONYMOUS`), or `none`.",
)
SSL_ENABLED_PROTOCOLS = ConfigKey(
    name="ssl.enabled.protocols",
    type=comma_list("TLSv1.2", "TLSv1.3", repeated="dropped", non_empty=True),
    default=("TLSv1.2", "TLSv1.3"),
    per_listener="static",
    documentation="The versions of TLS that a connection may use. Older ones are broken, and not offered.",
)
SSL_CIPHER_SUITES = ConfigKey(
    name="ssl.cipher.suites",
    type=comma_list(repeated="dropped"),
    default=(),
    per_listener="static",
    documentation="The cipher suites that a connection may use, by their IANA names; empty: what OpenSSL "
    "finds secure.",
)
SSL_PRINCIPAL_MAPPING_RULES = ConfigKey(
    name="ssl.principal.mapping.rules",
    type=string(),
    default="DEFAULT",
    per_listener="static",
    documentation="Rules that make the name of the principal of the distinguished name in a client's "
    "certificate, between commas: `RULE:pattern/replacement/`, with `L` or `U` behind it for lower or upper "
    "case, or `DEFAULT` for the name as it is. The first that matches is used.",
)
SSL_ALLOW_DN_CHANGES = ConfigKey(
    name="ssl.allow.dn.changes",
    type=boolean(),
    default=False,
    per_listener="static",
    documentation="Whether the broker's certificate may be replaced, while it runs, by one with another "
    "distinguished name.",
)
SSL_ALLOW_SAN_CHANGES = ConfigKey(
    name="ssl.allow.san.changes",
    type=boolean(),
    default=False,
    per_listener="static",
    documentation="Whether it may be replaced by one that lacks some of its alternative names.",
)
WITHOUT_EFFECT = (
    ConfigKey(
        name="ssl.protocol",
        type=string(),
        default="TLSv1.3",
        per_listener="static",
        documentation="The context of TLS in Java. Kept and described, without effect: "
        "`ssl.enabled.protocols` has the versions.",
        inert="ssl.enabled.protocols has the versions",
    ),
)
"""What Kafka's tools look for, and nothing reads."""
