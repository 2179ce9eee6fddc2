"""A certificate authority for development and tests: it signs certificates of brokers and clients."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidelog.plugins.keystores.stores import KeyEntry, StoreError, key_entry_of_pem

if TYPE_CHECKING:
    from collections.abc import Sequence

_CLOCKS_DIFFER_BY: Final = timedelta(hours=1)
"""A certificate is valid from so long before it was made: other machines' clocks may be behind."""


@attrs.frozen
class Authority:
    """A key that signs, and its certificate."""

    entry: KeyEntry

    @classmethod
    def create(cls, name: str, valid: timedelta) -> Authority:
        """Make an authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _common_name(name)
        builder = _builder(subject, subject, key.public_key(), valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        return cls(KeyEntry(_key_pem(key), (certificate,)))

    @classmethod
    def of_pem(cls, content: bytes) -> Authority:
        """Return the authority whose key and certificate are in PEM text.

        Raises:
            StoreError: they are not, or the certificate is not that of an authority.
        """
        entry = key_entry_of_pem(content, None)
        try:
            constraints = entry.certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            raise StoreError("has a certificate that is not that of an authority") from None
        if not constraints.ca:
            raise StoreError("has a certificate that is not that of an authority")
        return cls(entry)

    def issue(
        self, name: str, valid: timedelta, hosts: Sequence[str] = (), *, organization: str = ""
    ) -> KeyEntry:
        """Sign a certificate with a new key: of a broker if it has hosts, else of a client.

        A host is a name or an address.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.entry.certificate
        subject = _common_name(name, organization)
        builder = _builder(subject, issuer.subject, key.public_key(), valid)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        # Brokers are clients of each other, too.
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + [ExtendedKeyUsageOID.SERVER_AUTH] * bool(hosts)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            names = x509.SubjectAlternativeName(list(map(_general_name, hosts)))
            builder = builder.add_extension(names, critical=False)
        signing = serialization.load_pem_private_key(self.entry.key, None)
        certificate = builder.sign(signing, hashes.SHA256())  # type: ignore[arg-type]
        return KeyEntry(_key_pem(key), (certificate, issuer))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + valid) - _CLOCKS_DIFFER_BY)
        .not_valid_after(now + valid)
    )


def _common_name(name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
