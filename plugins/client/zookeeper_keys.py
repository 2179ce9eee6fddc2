"""An ensemble of ZooKeeper from the keys of Kafka's brokers and tools: `zookeeper.ssl.*`.

Source: Kafka documentation 3.9, "ZooKeeper", and the files of its tools' option `--zk-tls-config-file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tidelog.plugins.client.secret_references import resolve_references
from tidelog.plugins.client.tls_keys import stores_of_keys
from tidelog.plugins.client.zookeeper_ensemble import ZooKeeperEnsemble

_PREFIX: Final = "zookeeper."
_ENABLE: Final = "ssl.client.enable"
_ALGORITHM: Final = "ssl.endpoint.identification.algorithm"
_TIMEOUT: Final = "session.timeout.ms"
_OF_JAVA: Final = "clientCnxnSocket"
"""A class, which Kafka's tools need beside the other keys."""
_STORES: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
ZOOKEEPER_KEYS: Final = tuple(
    sorted(_PREFIX + name for name in (_ENABLE, _ALGORITHM, _TIMEOUT, _OF_JAVA, *_STORES))
)


def ensemble_of_keys(connect: str, given: Mapping[str, str]) -> ZooKeeperEnsemble:
    """Return an ensemble with such keys; those of TLS have no effect unless it is enabled.

    Raises:
        ValueError, ModuleNotFoundError: as of `ZooKeeperEnsemble`; or a key has a value that it cannot have,
            which the text names.
    """
    values = {
        name.removeprefix(_PREFIX): text.strip()
        for name, text in resolve_references(given).items()
        if name in ZOOKEEPER_KEYS and text.strip()
    }
    options: dict[str, Any] = {}
    if _TIMEOUT in values:
        options["session_timeout_ms"] = _milliseconds(values[_TIMEOUT])
    if _enabled(values.get(_ENABLE, "false")):
        algorithm = given.get(_PREFIX + _ALGORITHM, "https").strip().lower()
        if algorithm not in ("https", ""):
            raise ValueError(f"{_PREFIX}{_ALGORITHM}: {algorithm!r} is neither https nor empty")
        stores = {name: text for name, text in values.items() if name in _STORES}
        try:
            options["ssl_stores"] = stores_of_keys(
                stores,
                prefix="zookeeper.ssl",
                has_one_password=True,
                keystore_type=None,
                truststore_type=None,
            )
        except ValueError as error:
            raise ValueError(f"{_PREFIX}{error}") from None
        options |= {"use_tls": True, "ssl_check_hostname": algorithm != ""}
    return ZooKeeperEnsemble(connect, **options)


def _enabled(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{_PREFIX}{_ENABLE}: {text!r} is neither true nor false")
    return text.lower() == "true"


def _milliseconds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError(f"{_PREFIX}{_TIMEOUT}: {text!r} is no number of milliseconds above 0")
    return int(text)
