"""Records of TLS 1.3 that a client's library would not send, by the secrets in its key log (RFC 8446)."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HASH, _KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = "sha384", 32, 12, 16
APPLICATION_DATA, _HANDSHAKE = 0x17, 0x16


class RawRecords:
    """The records of a client with TLS_AES_256_GCM_SHA384 that has sent nothing since its handshake."""

    def __init__(self, key_log: Path) -> None:
        """`key_log` is `SSLContext.keylog_filename` of one connection."""
        lines = (line.split() for line in key_log.read_text().splitlines())
        self._use(next(bytes.fromhex(line[2]) for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"))

    def _use(self, secret: bytes) -> None:
        self._secret = secret
        self._cipher = AESGCM(self._expanded(b"key", _KEY_BYTES))
        self._nonce = int.from_bytes(self._expanded(b"iv", _NONCE_BYTES), "big")
        self._number = 0

    def _expanded(self, label: bytes, size: int) -> bytes:
        """HKDF-Expand-Label of no more than one block."""
        label = b"tls13 " + label
        info = size.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0\1"
        return hmac.digest(self._secret, info, _HASH)[:size]

    def record(self, content: bytes, kind: int = APPLICATION_DATA) -> bytes:
        """A record with this content."""
        head = b"\x17\x03\x03" + (len(content) + 1 + _TAG_BYTES).to_bytes(2, "big")
        nonce = (self._nonce ^ self._number).to_bytes(_NONCE_BYTES, "big")
        self._number += 1
        return head + self._cipher.encrypt(nonce, content + bytes([kind]), head)

    def key_update(self, *, asks: bool) -> bytes:
        """The record of a key update, which may ask for one of the broker; then there are other keys."""
        record = self.record(bytes([24, 0, 0, 1, asks]), _HANDSHAKE)
        self._use(self._expanded(b"traffic upd", hashlib.new(_HASH).digest_size))
        return record
