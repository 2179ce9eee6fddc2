"""Kafka's client keys in tables `[mirrors.NAME]`: how a mirror connects to its source and to its target.

Those of the source have their names, those of the target `target.` before them. A source may be found in
ZooKeeper, with the keys of Kafka's brokers for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.types import Password, optional, password, string

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.kernel.config import TableConfig
    from tidelog.plugins.client.security import SecuritySettings
    from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble

_SOURCE: Final = "mirrors.NAME."
_TARGET: Final = "mirrors.NAME.target."
_MEANINGS: Final = {
    "security.protocol": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; unset: PLAINTEXT.",
    "sasl.kerberos.min.time.before.relogin": "How long a ticket of Kerberos is used at least.",
    "sasl.kerberos.service.name": "The first part of the principal of brokers, for GSSAPI.",
    "sasl.kerberos.ticket.renew.jitter": "Up to which further share of its lifetime, by chance.",
    "sasl.kerberos.ticket.renew.window.factor": "The share of its lifetime after which a ticket is requested "
    "again.",
    "sasl.mechanism": "How the mirror authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or "
    "GSSAPI; unset: GSSAPI.",
    "sasl.login.callback.handler.class": "Kafka's OAuthBearerLoginCallbackHandler, as without this key.",
    "sasl.login.connect.timeout.ms": "Limit of the wait for a connection to the identity provider.",
    "sasl.login.read.timeout.ms": "Limit of the wait for its answer.",
    "sasl.login.refresh.buffer.seconds": "How long before it expires an access token is read again.",
    "sasl.login.refresh.min.period.seconds": "How long an access token is used at least.",
    "sasl.login.refresh.window.factor": "The share of its lifetime after which an access token is read "
    "again.",
    "sasl.login.refresh.window.jitter": "Up to which further share, by chance.",
    "sasl.login.retry.backoff.max.ms": "The longest wait between attempts to get an access token, and how "
    "long is tried.",
    "sasl.login.retry.backoff.ms": "The first wait between attempts.",
    "sasl.oauthbearer.assertion.algorithm": "RS256 or ES256; unset: RS256.",
    "sasl.oauthbearer.assertion.claim.aud": "The claim aud of assertions.",
    "sasl.oauthbearer.assertion.claim.exp.seconds": "How long an assertion is good; unset: 300.",
    "sasl.oauthbearer.assertion.claim.iss": "The claim iss of assertions; without a retriever class it is "
    "also what has the mirror known by an assertion instead of a secret.",
    "sasl.oauthbearer.assertion.claim.jti.include": "Whether each assertion has an id of its own.",
    "sasl.oauthbearer.assertion.claim.nbf.seconds": "Since how long an assertion is good; unset: 60.",
    "sasl.oauthbearer.assertion.claim.sub": "The claim sub of assertions.",
    "sasl.oauthbearer.assertion.file": "File with an assertion that is made already.",
    "sasl.oauthbearer.assertion.private.key.file": "PEM file with the key that signs assertions.",
    "sasl.oauthbearer.assertion.template.file": "JSON file with further fields and claims of assertions.",
    "sasl.oauthbearer.jwt.retriever.class": "How access tokens are requested: Kafka's DefaultJwtRetriever, "
    "ClientCredentialsJwtRetriever, FileJwtRetriever or JwtBearerJwtRetriever.",
    "sasl.oauthbearer.client.credentials.client.id": "Who the mirror is for the identity provider.",
    "sasl.oauthbearer.header.urlencode": "Whether id and secret are quoted.",
    "sasl.oauthbearer.scope": "What access tokens are to be good for.",
    "sasl.oauthbearer.token.endpoint.url": "Where access tokens are from: https:// of an identity "
    "provider, or file:// of a token.",
    "ssl.cipher.suites": "Cipher suites of TLS 1.2, between commas.",
    "ssl.enabled.protocols": "Versions of TLS, between commas.",
    "ssl.endpoint.identification.algorithm": "https compares the host with the broker's certificate; empty "
    "accepts any host.",
    "ssl.keystore.certificate.chain": "The mirror's certificate as PEM.",
    "ssl.keystore.location": "File of the mirror's key and certificate.",
    "ssl.keystore.type": "PEM, PKCS12 or JKS.",
    "ssl.truststore.certificates": "Authorities as PEM whose brokers are trusted.",
    "ssl.truststore.location": "File with the authorities whose brokers are trusted; unset: those of the "
    "system.",
    "ssl.truststore.type": "PEM, PKCS12 or JKS.",
}
_MEANINGS_OF_ZOOKEEPER: Final = {
    "zookeeper.session.timeout.ms": "Limit of each answer.",
    "zookeeper.ssl.cipher.suites": "Cipher suites of TLS 1.2, between commas.",
    "zookeeper.ssl.client.enable": "true connects with TLS.",
    "zookeeper.ssl.enabled.protocols": "Versions of TLS, between commas.",
    "zookeeper.ssl.endpoint.identification.algorithm": "https compares the host with the server's "
    "certificate; empty accepts any host.",
    "zookeeper.ssl.keystore.location": "File of the mirror's key and certificate.",
    "zookeeper.ssl.keystore.type": "PEM, PKCS12 or JKS; unset: what its content is.",
    "zookeeper.ssl.truststore.location": "File with the authorities whose servers are trusted; unset: those "
    "of the system.",
    "zookeeper.ssl.truststore.type": "PEM, PKCS12 or JKS; unset: what its content is.",
}
_SECRETS_OF_ZOOKEEPER: Final = {
    "zookeeper.ssl.keystore.password": "Password of the key store.",
    "zookeeper.ssl.truststore.password": "Password of the trust store.",
}
_SECRETS: Final = {
    "sasl.oauthbearer.assertion.private.key.passphrase": "Passphrase of the key that signs assertions.",
    "sasl.jaas.config": "User and password, as a line of Kafka's JAAS configuration.",
    "sasl.oauthbearer.client.credentials.client.secret": "The mirror's secret there.",
    "ssl.key.password": "Password of the key.",
    "ssl.keystore.key": "The mirror's key as PEM.",
    "ssl.keystore.password": "Password of the key store.",
    "ssl.truststore.password": "Password of the trust store.",
}


_KeyOfClient: TypeAlias = "ConfigKey[str | Password | None]"


def _declared(
    prefix: str, use: str, meanings: Mapping[str, str], secrets: Mapping[str, str]
) -> tuple[_KeyOfClient, ...]:
    def key(name: str, meaning: str) -> _KeyOfClient:
        kind = optional(password()) if name in secrets else optional(string())
        return ConfigKey(name=prefix + name, type=kind, default=None, documentation=f"{use} {meaning}")

    return tuple(key(name, meaning) for name, meaning in sorted({**meanings, **secrets}.items()))


_USE: Final = "As in Kafka's clients, for connections to the"
_USE_OF_ZOOKEEPER: Final = "As in Kafka's brokers, where `bootstrap.servers` names a ZooKeeper."
SOURCE_KEYS: Final = (
    *_declared(_SOURCE, f"{_USE} source.", _MEANINGS, _SECRETS),
    *_declared(_SOURCE, _USE_OF_ZOOKEEPER, _MEANINGS_OF_ZOOKEEPER, _SECRETS_OF_ZOOKEEPER),
)
TARGET_KEYS: Final = _declared(_TARGET, f"{_USE} target.", _MEANINGS, _SECRETS)


def source_security(table: TableConfig) -> SecuritySettings:
    """Return how the mirror of a table connects to its source.

    Raises:
        ValueError: a value cannot be used; the text names its key.
    """
    return security_of(_values(table, SOURCE_KEYS, _SOURCE))


def source_ensemble(bootstrap: str, table: TableConfig) -> ZooKeeperEnsemble | None:
    """Return in which ZooKeeper the mirror of a table finds the brokers of its source, None for addresses.

    Raises:
        ValueError, ModuleNotFoundError: as of `ensemble_named`.
    """
    return ensemble_named(bootstrap, _values(table, SOURCE_KEYS, _SOURCE))


def ensemble_named(bootstrap: str, values: Mapping[str, str]) -> ZooKeeperEnsemble | None:
    """Return the ensemble that a text names, with the options that keys have; None for addresses.

    Raises:
        ValueError: it has another form, or a key a value that it cannot have.
        ModuleNotFoundError: an ensemble needs kazoo.
    """
    # Not at the top, as in `security_of`.
    from tidelog.plugins.client.settings import parse_addresses
    from tidelog.plugins.client.zookeeper_ensemble import names_ensemble
    from tidelog.plugins.client.zookeeper_keys import ensemble_of_keys

    if names_ensemble(bootstrap):
        return ensemble_of_keys(bootstrap, values)
    parse_addresses(bootstrap)
    return None


def target_security(table: TableConfig) -> SecuritySettings:
    """Return how it connects to its target.

    Raises:
        ValueError: as of `source_security`; the text names the key with `target.`.
    """
    try:
        return security_of(_values(table, TARGET_KEYS, _TARGET))
    except ValueError as error:
        raise ValueError(f"target.{error}") from None


def security_of(values: Mapping[str, str]) -> SecuritySettings:
    """Return the settings that keys of Kafka's clients have.

    Raises:
        ValueError: as of `source_security`, also for a key that does not concern a connection.
    """
    # Not at the top: a broker without mirrors needs the keys alone.
    from tidelog.plugins.client.security_keys import is_security_key, security_of_keys
    from tidelog.plugins.client.zookeeper_keys import ZOOKEEPER_KEYS

    unknown = next(
        (name for name in values if name not in ZOOKEEPER_KEYS and not is_security_key(name)), None
    )
    if unknown is not None:
        raise ValueError(f"{unknown}: a mirror takes only keys that concern connections")
    return security_of_keys(values)


def _values(table: TableConfig, keys: Sequence[_KeyOfClient], prefix: str) -> dict[str, str]:
    found = {key.name.removeprefix(prefix): table[key] for key in keys}
    return {
        name: value.value if isinstance(value, Password) else value
        for name, value in found.items()
        if value is not None
    }
