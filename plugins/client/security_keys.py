"""Settings of connections from the keys of Kafka's clients: `security.protocol`, `ssl.*`, `sasl.*`.

Source: Kafka documentation, "Producer Configs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.plugins.client.kerberos_keys import KERBEROS_KEYS, kerberos_of_keys
from tidelog.plugins.client.oauth_key_names import OAUTH_KEYS
from tidelog.plugins.client.secret_references import PROVIDERS, is_provider_key, resolve_references
from tidelog.plugins.client.security import SECURITY_PROTOCOLS, SecuritySettings

if TYPE_CHECKING:
    from tidelog.plugins.keystores.tls_stores import TlsStores

PROTOCOL: Final = "security.protocol"
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"
_STORES: Final = {
    f"ssl.{name}": name.replace(".", "_")
    for name in (
        "truststore.type",
        "truststore.location",
        "truststore.password",
        "truststore.certificates",
        "keystore.type",
        "keystore.location",
        "keystore.password",
        "keystore.key",
        "keystore.certificate.chain",
        "key.password",
    )
}
_LISTS: Final = {"ssl.enabled.protocols": "enabled_protocols", "ssl.cipher.suites": "cipher_suites"}
_SASL: Final = {"sasl.mechanism": "sasl_mechanism", "sasl.jaas.config": "sasl_jaas_config"}
SECURITY_KEYS: Final = tuple(
    sorted((PROTOCOL, _ALGORITHM, *_STORES, *_LISTS, *_SASL, *KERBEROS_KEYS, *OAUTH_KEYS, PROVIDERS))
)
"""Those with fixed names; each provider of references has a further one."""
_GSSAPI: Final = "GSSAPI"
"""Kafka's default."""
_OAUTHBEARER: Final = "OAUTHBEARER"


def is_security_key(name: str) -> bool:
    """Return whether `security_of_keys` knows a key of Kafka's clients."""
    return name in SECURITY_KEYS or is_provider_key(name)


def security_of_keys(given: Mapping[str, str]) -> SecuritySettings:
    """Return the settings that such keys have; as in Kafka those of TLS have no effect without TLS.

    Raises:
        ValueError: one has a value that it cannot have; the text names it, and has no secret.
    """
    values = {name: text.strip() for name, text in resolve_references(given).items()}
    protocol = values.get(PROTOCOL, "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"{PROTOCOL}: {protocol!r} is none of {', '.join(SECURITY_PROTOCOLS)}")
    settings: dict[str, Any] = {"security_protocol": protocol}
    if "SSL" in protocol:
        algorithm = values.get(_ALGORITHM, "https").lower()
        if algorithm not in ("https", ""):
            raise ValueError(f"{_ALGORITHM}: {algorithm!r} is neither https nor empty")
        settings["ssl_endpoint_identification_algorithm"] = algorithm
        settings["ssl_stores"] = stores_of_keys(values)
    if protocol.startswith("SASL"):
        settings |= _sasl(values)
    return SecuritySettings(**settings)


def _sasl(values: Mapping[str, str]) -> dict[str, Any]:
    mechanism = values.get("sasl.mechanism", _GSSAPI)
    if mechanism == _GSSAPI:
        return {"sasl_mechanism": mechanism, "sasl_kerberos": kerberos_of_keys(values)}
    if mechanism != _OAUTHBEARER:
        return {"sasl_mechanism": mechanism, "sasl_jaas_config": values.get("sasl.jaas.config")}
    # Not at the top: most clients log in without tokens.
    from tidelog.plugins.client.oauth_keys import oauth_of_keys

    return {"sasl_mechanism": mechanism, "sasl_oauth": oauth_of_keys(values)}


def stores_of_keys(values: Mapping[str, str], **options: Any) -> TlsStores:
    """Return the stores that keys `ssl.*` name, with further options of theirs.

    Raises:
        ValueError: one has a value that it cannot have; the text names it.
    """
    # Not at the top: most clients connect without TLS.
    from tidelog.plugins.keystores.contexts import VERSIONS
    from tidelog.plugins.keystores.tls_stores import TlsStores

    lists: dict[str, Any] = {
        setting: tuple(part.strip() for part in values[name].split(",") if part.strip())
        for name, setting in _LISTS.items()
        if values.get(name)
    }
    unknown = [name for name in lists.get("enabled_protocols", ()) if name not in VERSIONS]
    if unknown:
        raise ValueError(f"ssl.enabled.protocols: {unknown[0]!r} is none of {', '.join(VERSIONS)}")
    texts: dict[str, Any] = {setting: values[name] for name, setting in _STORES.items() if values.get(name)}
    return TlsStores(**{**options, **texts, **lists})
