"""What OpenSSL reports, in words that name the remedy."""

from __future__ import annotations

import ssl
from typing import Final

_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client presents no certificate, and ssl.client.auth=required",
    "NO_SHARED_CIPHER": "the client offers none of the cipher suites that ssl.cipher.suites allows",
    "UNSUPPORTED_PROTOCOL": "the client offers no version of TLS that ssl.enabled.protocols allows",
    "VERSION_TOO_LOW": "the client offers no version of TLS that ssl.enabled.protocols allows",
    "UNEXPECTED_EOF_WHILE_READING": "the client ended the connection within its handshake",
    "HTTP_REQUEST": "the client speaks HTTP without TLS, and this listener needs TLS",
    "WRONG_VERSION_NUMBER": "what the client sends is no TLS",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "a record was changed or damaged on its way",
}
_ALERTS: Final = {
    "UNKNOWN_CA": "it does not know the authority that signed it",
    "CERTIFICATE_UNKNOWN": "it does not trust it, or it is not for the host that the client has connected to",
    "BAD_CERTIFICATE": "it does not trust it, or it is not for the host that the client has connected to",
    "CERTIFICATE_EXPIRED": "it has expired",
    "CERTIFICATE_REVOKED": "it is revoked",
    "UNSUPPORTED_CERTIFICATE": "its kind is not supported",
}
"""The alerts by which a client refuses the certificate of the broker."""


def failure_in_words(error: ssl.SSLError) -> str:
    """Return why a handshake or a record failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    if reason in _REASONS:
        return _REASONS[reason]
    _, is_alert, alert = reason.partition("_ALERT_")
    if not is_alert:
        return f"its TLS failed ({reason or error})"
    if alert in _ALERTS:
        return f"the client refuses the broker's certificate: {_ALERTS[alert]}"
    return f"the client ended its TLS with the alert {alert.lower().replace('_', ' ')}"
