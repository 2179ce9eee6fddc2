"""Key stores and trust stores of a client, as Kafka's keys `ssl.*` and `zookeeper.ssl.*` name them."""

from __future__ import annotations

import ssl

import attrs

from tidelog.plugins.keystores.contexts import (
    VERSIONS,
    load_key,
    load_trusted,
    restrict_ciphers,
    restrict_versions,
)
from tidelog.plugins.keystores.stores import JKS, StoreText, read_key_entry, read_trusted


@attrs.frozen(kw_only=True)
class TlsStores:
    """Texts of Kafka's keys, by their names without `ssl.`; passwords and keys are in no representation.

    Attributes:
        truststore_type, keystore_type: PEM, PKCS12 or JKS, None: what the file's content is
        prefix: what the names of the keys begin with, for errors
        has_one_password: that of the key store is that of its key in a PEM file as well
    """

    truststore_type: str | None = JKS
    truststore_location: str | None = None
    truststore_password: str | None = attrs.field(default=None, repr=False)
    truststore_certificates: str | None = attrs.field(default=None, repr=False)
    keystore_type: str | None = JKS
    keystore_location: str | None = None
    keystore_password: str | None = attrs.field(default=None, repr=False)
    keystore_key: str | None = attrs.field(default=None, repr=False)
    keystore_certificate_chain: str | None = attrs.field(default=None, repr=False)
    key_password: str | None = attrs.field(default=None, repr=False)
    enabled_protocols: tuple[str, ...] = tuple(VERSIONS)
    cipher_suites: tuple[str, ...] = ()
    prefix: str = "ssl"
    has_one_password: bool = False

    def load_into(self, context: ssl.SSLContext) -> None:
        """Trust and present what is in the stores; blocks while it reads them.

        Raises:
            StoreError: one of them cannot be used; the text names its key.
        """
        restrict_versions(context, self.enabled_protocols)
        if self.cipher_suites:
            restrict_ciphers(context, self.cipher_suites)
        trusted = read_trusted(
            StoreText(
                f"{self.prefix}.truststore",
                self.truststore_type,
                self.truststore_location,
                self.truststore_password,
                self.truststore_certificates,
                has_one_password=self.has_one_password,
            )
        )
        if trusted is None:
            context.load_default_certs()
        else:
            load_trusted(context, trusted)
        entry = read_key_entry(
            StoreText(
                f"{self.prefix}.keystore",
                self.keystore_type,
                self.keystore_location,
                self.keystore_password,
                self.keystore_key,
                self.keystore_certificate_chain,
                self.has_one_password,
            ),
            self.key_password,
        )
        if entry is not None:
            load_key(context, entry)
