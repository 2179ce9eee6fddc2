"""Key stores and trust stores as Kafka configures them: PEM files, PEM text, files of PKCS#12 and JKS.

Source: Kafka's `DefaultSslEngineFactory` and KIP-651.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from tidelog.kernel.errors import TidelogError
from tidelog.plugins.keystores.jks import MAGIC, JksError, JksStore, parse_jks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"

_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DER_SEQUENCE: Final = b"\x30"
"""The first byte of a PKCS#12 file."""
_PEM_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_MOST_BYTES: Final = 16 * 1024 * 1024
"""A store is read into memory, and a path may lead anywhere; those of whole countries have 1 MB."""


class StoreError(TidelogError):
    """A store cannot be used; the message says why, without its file or key."""


class KeyEntry(NamedTuple):
    """A private key, as PEM without a password, and its certificate with those that lead to its issuer."""

    key: bytes
    chain: tuple[x509.Certificate, ...]

    @property
    def certificate(self) -> x509.Certificate:
        """The certificate of the key."""
        return self.chain[0]

    def pem(self) -> bytes:
        """Return all of it as PEM, as OpenSSL reads it."""
        return self.key + certificates_pem(self.chain)


def certificates_pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return certificates as PEM."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def read_file(path: str) -> bytes:
    """Read a store.

    Raises:
        StoreError: the file cannot be read, or is too long for a store.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    if len(content) > _MOST_BYTES:
        raise StoreError(f"{path} is no store: it has more than {_MOST_BYTES} bytes")
    return content


def key_entry_of_pem(content: bytes, password: str | None) -> KeyEntry:
    """Return the first private key of PEM text, and its certificates in their order.

    Raises:
        StoreError: one of them is missing, they do not belong together, or the password is wrong.
    """
    blocks = [found for found in _PEM_BLOCK.finditer(content) if found[1].endswith(b"PRIVATE KEY")]
    if not blocks:
        raise StoreError("has no private key (-----BEGIN PRIVATE KEY-----)")
    certificates = certificates_of_pem(content)
    encrypted = blocks[0][1] == b"ENCRYPTED PRIVATE KEY" or b"Proc-Type: 4,ENCRYPTED" in blocks[0][0]
    if encrypted and password is None:
        raise StoreError("has an encrypted private key, and no password for it is set")
    try:
        key = serialization.load_pem_private_key(
            blocks[0][0], password.encode() if encrypted and password is not None else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        reason = "has a private key that cannot be read" + (" with this password" if encrypted else "")
        raise StoreError(reason) from error
    return _matching(key, certificates)


def certificates_of_pem(content: bytes) -> tuple[x509.Certificate, ...]:
    """Return the certificates of PEM text.

    Raises:
        StoreError: there is none, or one cannot be read.
    """
    try:
        return tuple(x509.load_pem_x509_certificates(content))
    except ValueError as error:
        reason = "has a certificate that cannot be read"
        if b"-----BEGIN CERTIFICATE-----" not in content:
            reason = "has no certificate (-----BEGIN CERTIFICATE-----)"
        raise StoreError(reason) from error


def key_entry_of_pkcs12(content: bytes, password: str | None) -> KeyEntry:
    """Return the private key of a PKCS#12 file and its certificates.

    Raises:
        StoreError: it has no key, or the password is wrong.
    """
    store = _pkcs12(content, password)
    if store.key is None or store.cert is None:
        raise StoreError("has no private key with a certificate")
    return _matching(store.key, _chain(store.cert.certificate, store.additional_certs))


def certificates_of_pkcs12(content: bytes, password: str | None) -> tuple[x509.Certificate, ...]:
    """Return all certificates of a PKCS#12 file.

    Raises:
        StoreError: it has none, or the password is wrong.
    """
    store = _pkcs12(content, password)
    own = () if store.cert is None else (store.cert.certificate,)
    found = (*own, *(each.certificate for each in store.additional_certs))
    if not found:
        raise StoreError("has no certificate")
    return found


def key_entry_of_jks(content: bytes, password: str | None, key_password: str | None) -> KeyEntry:
    """Return the first private key of a JKS file and its certificates; without a password it has the store's.

    Raises:
        StoreError: it has no key, or a password is wrong.
    """
    store = _jks(content, password)
    if not store.keys or not store.keys[0].chain:
        raise StoreError("has no private key with a certificate")
    secret = password if key_password is None else key_password
    if secret is None:
        raise StoreError("has an encrypted private key, and no password for it is set")
    try:
        key = serialization.load_der_private_key(store.keys[0].decrypted(secret), None)
    except (ValueError, UnsupportedAlgorithm) as error:
        text = str(error) if isinstance(error, JksError) else "has a private key that cannot be read"
        raise StoreError(text) from error
    return _matching(key, _certificates_of_der(store.keys[0].chain))


def certificates_of_jks(content: bytes, password: str | None) -> tuple[x509.Certificate, ...]:
    """Return the certificates of a JKS file that are trusted, as in Java also those of its private keys.

    Raises:
        StoreError: it has none, or the password is wrong.
    """
    store = _jks(content, password)
    found = (*store.certificates, *(key.chain[0] for key in store.keys if key.chain))
    if not found:
        raise StoreError("has no certificate")
    return _certificates_of_der(found)


def kind_of(content: bytes, kind: str | None, path: str) -> str:
    """Return the kind of a store, None for what its content is: as in Java each of JKS and PKCS12 is both.

    Raises:
        StoreError: it is of another kind.
    """
    if content.startswith(_JCEKS_MAGIC):
        raise StoreError(
            f"{path} has Java's format JCEKS, which is not read here; convert it with: keytool "
            f"-importkeystore -srckeystore {path} -srcstoretype JCEKS -destkeystore {path}.p12 "
            "-deststoretype PKCS12"
        )
    if kind in (JKS, PKCS12, None) and content.startswith(MAGIC):
        return JKS
    is_pem = b"-----BEGIN " in content
    if kind is None:
        return PEM if is_pem else PKCS12
    if kind == JKS:
        if content.startswith(_DER_SEQUENCE):
            return PKCS12
        raise StoreError(f"{path} is no store of the type JKS" + ("; set the type PEM" if is_pem else ""))
    return kind


def _jks(content: bytes, password: str | None) -> JksStore:
    try:
        return parse_jks(content, password)
    except JksError as error:
        raise StoreError(str(error)) from error


def _certificates_of_der(ders: Sequence[bytes]) -> tuple[x509.Certificate, ...]:
    try:
        return tuple(map(x509.load_der_x509_certificate, ders))
    except ValueError as error:
        raise StoreError("has a certificate that cannot be read") from error


def _pkcs12(content: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StoreError("is no PKCS#12 store that opens with this password") from error


def _chain(
    certificate: x509.Certificate, others: Sequence[pkcs12.PKCS12Certificate]
) -> tuple[x509.Certificate, ...]:
    """Return a certificate and those that lead to its issuer, without others of the file."""
    by_subject = {each.certificate.subject: each.certificate for each in others}
    chain = [certificate]
    while chain[-1].issuer != chain[-1].subject:
        issuer = by_subject.pop(chain[-1].issuer, None)
        if issuer is None:
            break
        chain.append(issuer)
    return tuple(chain)


def _matching(key: object, certificates: tuple[x509.Certificate, ...]) -> KeyEntry:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = key.public_key().public_bytes(serialization.Encoding.DER, form)  # type: ignore[attr-defined]
    if certificates[0].public_key().public_bytes(serialization.Encoding.DER, form) != public:
        raise StoreError("has a certificate that is not that of its private key; it has to be the first one")
    pem = key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyEntry(pem, certificates)


class StoreText(NamedTuple):
    """A store as text: the prefix of its keys, its type, its file with its password, or PEM text.

    Where a store has one password, a PEM file may have it too, for its key (as in ZooKeeper's client).
    """

    prefix: str
    kind: str | None
    """None: what the content of the file is."""
    location: str | None
    password: str | None
    text: str | None
    chain: str | None = None
    has_one_password: bool = False


def read_key_entry(store: StoreText, key_password: str | None) -> KeyEntry | None:
    """Return what a key store has, None if none is set; blocks.

    Raises:
        StoreError: it cannot be used; names the key.
    """
    if store.text is not None or store.chain is not None:
        _check_inline(store)
        if store.text is None or store.chain is None:
            raise StoreError("ssl.keystore.key and ssl.keystore.certificate.chain need each other")
        pem = _lines(f"{store.text}\n{store.chain}")
        return _of(f"{store.prefix}.key", lambda: key_entry_of_pem(pem, key_password))
    if store.location is None:
        return None
    content, password = _file(store)
    kind = kind_of(content, store.kind, store.location)
    if kind == PEM:
        _check_no_password(store)
        secret = password if store.has_one_password else key_password
        return _of(store.location, lambda: key_entry_of_pem(content, secret))
    if kind == JKS:
        return _of(store.location, lambda: key_entry_of_jks(content, password, key_password))
    return _of(store.location, lambda: key_entry_of_pkcs12(content, password))


def read_trusted(store: StoreText) -> tuple[x509.Certificate, ...] | None:
    """Return the certificates of a trust store, None if none is set; blocks.

    Raises:
        StoreError: it cannot be used; names the key.
    """
    if store.text is not None:
        _check_inline(store)
        pem = _lines(store.text)
        return _of(f"{store.prefix}.certificates", lambda: certificates_of_pem(pem))
    if store.location is None:
        return None
    content, password = _file(store)
    kind = kind_of(content, store.kind, store.location)
    if kind == PEM:
        _check_no_password(store)
        return _of(store.location, lambda: certificates_of_pem(content))
    if kind == JKS:
        return _of(store.location, lambda: certificates_of_jks(content, password))
    return _of(store.location, lambda: certificates_of_pkcs12(content, password))


def _file(store: StoreText) -> tuple[bytes, str | None]:
    return read_file(store.location or ""), store.password


def _check_inline(store: StoreText) -> None:
    if store.kind != PEM:
        raise StoreError(f"PEM text needs {store.prefix}.type=PEM")
    if store.location is not None:
        raise StoreError("a file and PEM text are set, and one has to go")


def _check_no_password(store: StoreText) -> None:
    if store.password is not None and not store.has_one_password:
        raise StoreError(f"a store of the type PEM has no password, but {store.prefix}.password is set")


def _of(source: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except StoreError as error:
        raise StoreError(f"{source} {error}") from error


def _lines(pem: str) -> bytes:
    r"""Return PEM text with the line ends that a properties file writes as `\n`."""
    return pem.replace("\\n", "\n").encode()
