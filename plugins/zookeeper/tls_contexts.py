"""TLS of connections to ZooKeeper: contexts from stores, as the broker's keys `zookeeper.ssl.*` name them."""

from __future__ import annotations

import ssl
from functools import partial
from typing import TYPE_CHECKING

from tidelog.kernel.errors import ConfigError
from tidelog.plugins.keystores.stores import StoreError
from tidelog.plugins.keystores.tls_stores import TlsStores
from tidelog.plugins.zookeeper import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.kernel.config import Config, ConfigKey
    from tidelog.kernel.config.types import Password

PREFIX = "zookeeper.ssl"


def checked_context_factory(config: Config) -> Callable[[], ssl.SSLContext]:
    """Return what makes a context for each connection; blocks while it reads the stores once.

    Raises:
        ConfigError: a store cannot be used; one that is replaced later is an error of its connection.
    """
    stores = _stores(config)
    checks_hostname = bool(config[keys.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM])
    new_context = partial(context_of_stores, stores, checks_hostname=checks_hostname)
    try:
        new_context()
    except StoreError as error:
        raise ConfigError(f"{PREFIX}.*: {error}") from error
    return new_context


def context_of_stores(stores: TlsStores, *, checks_hostname: bool) -> ssl.SSLContext:
    """Return a context that trusts and presents what is in stores; blocks while it reads them.

    Raises:
        StoreError: one of them cannot be used; the text names its key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_hostname
    stores.load_into(context)
    return context


def _stores(config: Config) -> TlsStores:
    def secret(key: ConfigKey[Password | None]) -> str | None:
        found = config[key]
        return None if found is None else found.value

    return TlsStores(
        prefix=PREFIX,
        has_one_password=True,
        truststore_type=config[keys.ZOOKEEPER_SSL_TRUSTSTORE_TYPE],
        truststore_location=config[keys.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION],
        truststore_password=secret(keys.ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD),
        keystore_type=config[keys.ZOOKEEPER_SSL_KEYSTORE_TYPE],
        keystore_location=config[keys.ZOOKEEPER_SSL_KEYSTORE_LOCATION],
        keystore_password=secret(keys.ZOOKEEPER_SSL_KEYSTORE_PASSWORD),
        enabled_protocols=config[keys.ZOOKEEPER_SSL_ENABLED_PROTOCOLS],
        cipher_suites=config[keys.ZOOKEEPER_SSL_CIPHER_SUITES],
    )
