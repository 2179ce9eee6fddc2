"""Settings of connections from the keys of Kafka's clients: `security.protocol`, `ssl.*`, `sasl.*`.

Source: Kafka documentation, "Producer Configs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.plugins.client.kerberos_keys import KERBEROS_KEYS, kerberos_of_keys
from tidelog.plugins.client.oauth_key_names import OAUTH_KEYS
from tidelog.plugins.client.secret_references import PROVIDERS, is_provider_key, resolve_references
from tidelog.plugins.client.security import SECURITY_PROTOCOLS, SecuritySettings
from tidelog.plugins.client.tls_keys import TLS_KEYS, stores_of_keys

PROTOCOL: Final = "security.protocol"
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"
_SASL: Final = {"sasl.mechanism": "sasl_mechanism", "sasl.jaas.config": "sasl_jaas_config"}
SECURITY_KEYS: Final = tuple(
    sorted((PROTOCOL, _ALGORITHM, *TLS_KEYS, *_SASL, *KERBEROS_KEYS, *OAUTH_KEYS, PROVIDERS))
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
