"""Key stores and trust stores by the keys of Kafka's clients: `ssl.*`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tidelog.plugins.keystores.tls_stores import TlsStores

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
TLS_KEYS: Final = (*_STORES, *_LISTS)


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
