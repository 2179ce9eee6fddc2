"""The settings of TLS of one listener, and what they make: its keys, its trust, its context."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from tidelog.kernel.errors import ConfigError
from tidelog.plugins.keystores.contexts import (
    TLS_1_3_SUITES,
    load_key,
    load_trusted,
    restrict_ciphers,
    restrict_versions,
)
from tidelog.plugins.keystores.names import alternative_names, subject_name
from tidelog.plugins.keystores.stores import KeyEntry, StoreError, StoreText, read_key_entry, read_trusted
from tidelog.plugins.tls import keys
from tidelog.plugins.tls.principal_rules import PrincipalRules

if TYPE_CHECKING:
    from cryptography import x509

    from tidelog.kernel.config import Config, ConfigKey
    from tidelog.kernel.config.types import Password

T = TypeVar("T")

_VERIFY: Final = {
    "none": ssl.VerifyMode.CERT_NONE,
    "requested": ssl.VerifyMode.CERT_OPTIONAL,
    "required": ssl.VerifyMode.CERT_REQUIRED,
}


class Store(NamedTuple):
    """A key store or trust store as it is configured: a file, or PEM text; secrets are not shown."""

    kind: str
    location: str | None
    password: Password | None
    text: Password | None
    chain: Password | None = None

    def as_text(self, prefix: str) -> StoreText:
        """Return the store with its secrets, as it is read."""
        secrets = (_text(self.password), _text(self.text), _text(self.chain))
        return StoreText(prefix, self.kind, self.location, *secrets)


class TlsSettings(NamedTuple):
    """Settings of a listener; two that are equal make the same, unless a file has changed."""

    listener: str
    key_store: Store
    key_password: Password | None
    trust_store: Store
    client_auth: str
    versions: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    mapping_rules: str
    allows_other_name: bool
    allows_fewer_alternatives: bool

    @classmethod
    def of_listener(cls, config: Config, listener: str) -> TlsSettings:
        """Return those of a listener: what is set for it alone counts more than what is set for all."""

        def value(key: ConfigKey[T]) -> T:
            return config.of_listener(key, listener)

        return cls(
            listener,
            Store(
                value(keys.SSL_KEYSTORE_TYPE),
                value(keys.SSL_KEYSTORE_LOCATION),
                value(keys.SSL_KEYSTORE_PASSWORD),
                value(keys.SSL_KEYSTORE_KEY),
                value(keys.SSL_KEYSTORE_CERTIFICATE_CHAIN),
            ),
            value(keys.SSL_KEY_PASSWORD),
            Store(
                value(keys.SSL_TRUSTSTORE_TYPE),
                value(keys.SSL_TRUSTSTORE_LOCATION),
                value(keys.SSL_TRUSTSTORE_PASSWORD),
                value(keys.SSL_TRUSTSTORE_CERTIFICATES),
            ),
            _client_auth(config, listener),
            value(keys.SSL_ENABLED_PROTOCOLS),
            value(keys.SSL_CIPHER_SUITES),
            value(keys.SSL_PRINCIPAL_MAPPING_RULES),
            value(keys.SSL_ALLOW_DN_CHANGES),
            value(keys.SSL_ALLOW_SAN_CHANGES),
        )

    def files(self) -> tuple[tuple[str, int, int, int] | None, ...]:
        """Return what changes with the content of the files, None for one that is not there; blocks."""
        return tuple(_stamp(store.location) for store in (self.key_store, self.trust_store) if store.location)


class TlsMaterial(NamedTuple):
    """What connections of a listener need, made of its settings."""

    context: ssl.SSLContext
    certificate: x509.Certificate
    suites_of_1_3: frozenset[str] | None
    """The suites of TLS 1.3 that may be used, None for all."""
    rules: PrincipalRules

    @classmethod
    def load(cls, settings: TlsSettings) -> TlsMaterial:
        """Read the stores; blocks for some milliseconds.

        Raises:
            ConfigError: something is missing, or cannot be used; names the key, and nothing that is secret.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A client could have the broker do the costly part of a handshake again and again.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION
        # A request says how long it is, so that none that was cut off is served; and a graceful stop ends
        # reading while responses are still sent, for which OpenSSL would send an alert.
        context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
        named = _Named(settings.listener)
        with named(keys.SSL_ENABLED_PROTOCOLS):
            restrict_versions(context, settings.versions)
        with named(keys.SSL_CIPHER_SUITES):
            if settings.cipher_suites:
                restrict_ciphers(context, settings.cipher_suites)
        entry = _key_entry(settings, named)
        with named(keys.SSL_KEYSTORE_LOCATION):
            load_key(context, entry)
        _trust(context, settings, named)
        with named(keys.SSL_PRINCIPAL_MAPPING_RULES):
            rules = PrincipalRules.parse(settings.mapping_rules)
        of_1_3 = frozenset(settings.cipher_suites).intersection(TLS_1_3_SUITES)
        return cls(context, entry.certificate, of_1_3 if settings.cipher_suites else None, rules)

    def check_replaced_by(self, other: TlsMaterial, settings: TlsSettings) -> None:
        """Check that clients which trust the present certificate will trust another one.

        Source: `SslFactory.CertificateEntries.ensureCompatible` of Kafka.

        Raises:
            ConfigError: it has another name, or lacks alternative names, and that is not allowed.
        """
        where = f"listener {settings.listener}: the new certificate"
        ours, theirs = (subject_name(each.certificate) for each in (self, other))
        if ours != theirs and not settings.allows_other_name:
            raise ConfigError(
                f"{where} has the distinguished name {theirs}, and the present one {ours}; "
                f"{keys.SSL_ALLOW_DN_CHANGES}=true allows that"
            )
        missing = alternative_names(self.certificate) - alternative_names(other.certificate)
        if missing and not settings.allows_fewer_alternatives:
            raise ConfigError(
                f"{where} lacks alternative names of the present one ({', '.join(sorted(missing))}); "
                f"{keys.SSL_ALLOW_SAN_CHANGES}=true allows that"
            )


class _Named:
    """Raises the errors in a block as those of a key of a listener."""

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._key = ""

    def __call__(self, key: ConfigKey[object]) -> _Named:
        """Name the key of the next block."""
        self._key = key.name
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, StoreError):
            raise self.problem(str(error)) from error

    def problem(self, reason: str) -> ConfigError:
        """Return the error."""
        return ConfigError(f"listener {self._listener}: {self._key}: {reason}")


def _key_entry(settings: TlsSettings, named: _Named) -> KeyEntry:
    with named(keys.SSL_KEYSTORE_LOCATION):
        entry = read_key_entry(settings.key_store.as_text("ssl.keystore"), _text(settings.key_password))
        if entry is None:
            raise StoreError(
                "is not set, and no ssl.keystore.key either: a broker needs a private key for TLS; `tidelog "
                "certs` makes one for development"
            )
        return entry


def _client_auth(config: Config, listener: str) -> str:
    """Return whether clients present a certificate; those with SASL only if it is set for the listener.

    They have shown otherwise who they are (KIP-684).
    """
    protocols = {each.name: each.security_protocol for each in config.served_listeners()}
    has_sasl = protocols.get(listener, "").startswith("SASL_")
    value = config.of_listener_alone if has_sasl else config.of_listener
    return value(keys.SSL_CLIENT_AUTH, listener)


def _trust(context: ssl.SSLContext, settings: TlsSettings, named: _Named) -> None:
    context.verify_mode = _VERIFY[settings.client_auth]
    with named(keys.SSL_TRUSTSTORE_LOCATION):
        trusted = read_trusted(settings.trust_store.as_text("ssl.truststore"))
        if trusted is not None:
            load_trusted(context, trusted)
        elif settings.client_auth != "none":
            # Kafka trusts every authority that Java knows then, so that anyone can buy a certificate.
            raise StoreError(f"is not set, and {keys.SSL_CLIENT_AUTH}={settings.client_auth} needs it")


def _text(password: Password | None) -> str | None:
    return None if password is None else password.value


def _stamp(path: str) -> tuple[str, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - it follows links, as a mounted secret has them
    except OSError:
        return None
    return path, found.st_ino, found.st_size, found.st_mtime_ns
