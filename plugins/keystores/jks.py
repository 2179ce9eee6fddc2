"""Java's own format of key stores and trust stores, JKS.

    magic FEEDFEED | version 1 or 2 | number of entries | entries | SHA-1 of password, a phrase and all that
    entry 1, a private key:  alias | time | length, EncryptedPrivateKeyInfo | number of certificates, these
    entry 2, a certificate:  alias | time | one certificate
    certificate:  type, in version 2 | length, DER

Numbers are big-endian with 4 bytes, times with 8, texts have 2 bytes of length before them. A key is
encrypted by Sun's own algorithm, a stream of SHA-1 of the password, which is no protection of much worth.

Source: OpenJDK, `sun.security.provider.JavaKeyStore` and `KeyProtector`.
"""

from __future__ import annotations

import hmac
from hashlib import sha1
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
_PHRASE: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_PRIVATE_KEY, _CERTIFICATE = 1, 2
_ALGORITHM: Final = bytes.fromhex("300e060a2b060104012a021101010500")
"""DER of the algorithm's identifier, 1.3.6.1.4.1.42.2.17.1.1 without parameters."""
_SEQUENCE, _OCTETS = 0x30, 0x04
_LONG_FORM: Final = 0x80


class JksError(ValueError):
    """The content is malformed, or the password is not that of the store or key; has no secret."""


class JksKey(NamedTuple):
    """A private key, still encrypted, and the DER of its certificates."""

    encrypted: bytes
    chain: tuple[bytes, ...]

    def decrypted(self, password: str) -> bytes:
        """Return the DER of the key (PKCS#8).

        Raises:
            JksError: it is encrypted in another way, or with another password.
        """
        data = _octets_of_sun(self.encrypted)
        if len(data) < 2 * _DIGEST_BYTES:
            raise JksError("has a private key that is cut")
        secret = password.encode("utf-16-be")
        salt, body, digest = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        stream = bytearray()
        while len(stream) < len(body):
            salt = sha1(secret + salt, usedforsecurity=False).digest()
            stream += salt
        size = len(body)
        plain = (int.from_bytes(body) ^ int.from_bytes(stream[:size])).to_bytes(size)
        if not hmac.compare_digest(sha1(secret + plain, usedforsecurity=False).digest(), digest):
            raise JksError("has a private key that cannot be read with this password")
        return plain


class JksStore(NamedTuple):
    """What is in a store: private keys, and the DER of certificates that are trusted."""

    keys: tuple[JksKey, ...]
    certificates: tuple[bytes, ...]


def parse_jks(content: bytes, password: str | None) -> JksStore:
    """Return the entries of a store; without a password it is not checked whether it was changed, as in Java.

    Raises:
        JksError: it is malformed, or has another password.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if password is not None:
        found = sha1(password.encode("utf-16-be") + _PHRASE + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(found, digest):
            raise JksError("is no store of the type JKS that opens with this password")
    reader = _JksReader(body)
    if reader.take(4) != MAGIC or (version := reader.number()) not in (1, 2):
        raise JksError("is no store of the type JKS")
    keys: list[JksKey] = []
    certificates: list[bytes] = []
    for _ in range(reader.number()):
        tag = reader.number()
        reader.take(reader.number(2))
        reader.take(8)
        if tag == _PRIVATE_KEY:
            encrypted = reader.take(reader.number())
            keys.append(JksKey(encrypted, tuple(reader.certificate(version) for _ in range(reader.number()))))
        elif tag == _CERTIFICATE:
            certificates.append(reader.certificate(version))
        else:
            raise JksError(
                f"has an entry of the kind {tag}, which is neither a private key nor a certificate"
            )
    return JksStore(tuple(keys), tuple(certificates))


class _JksReader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        if self._at > len(self._content):
            raise JksError("is a store of the type JKS that is cut")
        return self._content[start : self._at]

    def number(self, size: int = 4) -> int:
        return int.from_bytes(self.take(size))

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.take(self.number(2))
        return self.take(self.number())


def _octets_of_sun(encrypted: bytes) -> bytes:
    """Return what an EncryptedPrivateKeyInfo has for Sun's algorithm."""
    inner = _der_value(encrypted, _SEQUENCE)
    if not inner.startswith(_ALGORITHM):
        raise JksError("has a private key that is encrypted in a way which is not known here")
    return _der_value(inner[len(_ALGORITHM) :], _OCTETS)


def _der_value(content: bytes, tag: int) -> bytes:
    """Return the value of a DER element that is all of the content."""
    head = content[:2]
    if len(head) == 2 and head[0] == tag:
        more = head[1] - _LONG_FORM if head[1] >= _LONG_FORM else 0
        size = int.from_bytes(content[2 : 2 + more]) if more else head[1]
        value = content[2 + more :]
        if len(value) == size:
            return value
    raise JksError("has a private key that is malformed")
