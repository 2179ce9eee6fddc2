"""Assertions of a client for its identity provider: signed JWTs by which it is known there (RFC 7523).

    {"alg": "RS256", "typ": "JWT"} . {"iss": …, "sub": …, "aud": …, "iat": …, "nbf": …, "exp": …} . signature

Source: KIP-1139; Kafka's `DefaultAssertionCreator` and `LayeredAssertionJwtTemplate`.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

_MOST_BYTES: Final = 1024 * 1024
_PARTS_OF_JWT: Final = 3
_ES256_BYTES: Final = 32


class BadAssertion(ValueError):
    """There is no assertion; the message names the file, and has nothing of a secret."""


@attrs.frozen(kw_only=True)
class OAuthAssertion:
    """How a client makes its assertions; files are read for each one, so that they may be replaced.

    Attributes:
        file: a file with an assertion that is made already, instead of all else
        private_key_file: PEM file with the key that signs, PKCS #8
        private_key_passphrase: passphrase of the key
        algorithm: RS256 with a key of RSA, or ES256 with one of the curve P-256
        issuer: the claim `iss`
        subject: the claim `sub`
        audience: the claim `aud`, often the address of the identity provider
        lifetime_s: how long an assertion is good
        not_before_s: since how long, for clocks that differ
        has_id: whether each has an id of its own, the claim `jti`
        template_file: JSON file with further fields of `header` and claims of `payload`
    """

    file: str | None = None
    private_key_file: str | None = None
    private_key_passphrase: str | None = attrs.field(default=None, repr=False)
    algorithm: str = attrs.field(default="RS256", validator=attrs.validators.in_(("RS256", "ES256")))
    issuer: str | None = None
    subject: str | None = None
    audience: str | None = None
    lifetime_s: int = attrs.field(
        default=300, validator=[attrs.validators.ge(0), attrs.validators.le(24 * 3600)]
    )
    not_before_s: int = attrs.field(default=60, validator=[attrs.validators.ge(0), attrs.validators.le(3600)])
    has_id: bool = False
    template_file: str | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse settings without a key.

        Raises:
            ValueError: there is neither a file nor a key.
        """
        if self.file is None and self.private_key_file is None:
            raise ValueError("an assertion needs private_key_file, or file")


def assertion_of(settings: OAuthAssertion, now_s: float) -> str:
    """Return an assertion that is good from now on (seconds since the epoch); blocks.

    Raises:
        BadAssertion: a file cannot be read, or has something else.
    """
    if settings.file is not None:
        text = _read(settings.file).decode(errors="replace").strip()
        if text.count(".") != _PARTS_OF_JWT - 1:
            raise BadAssertion(
                f"{settings.file} has no assertion: it is not of the form HEADER.CLAIMS.SIGNATURE"
            )
        return text
    header, claims = _template(settings.template_file)
    fixed = {"iss": settings.issuer, "sub": settings.subject, "aud": settings.audience}
    now = int(now_s)
    claims = {name: value for name, value in fixed.items() if value is not None} | claims
    claims |= {"iat": now, "nbf": now - settings.not_before_s, "exp": now + settings.lifetime_s}
    if settings.has_id:
        claims["jti"] = str(uuid.uuid4())
    signed = b".".join(map(_json, ({**header, "alg": settings.algorithm, "typ": "JWT"}, claims)))
    signature = _signer(settings)(signed)
    return (signed + b"." + _encoded(signature)).decode()


def _signer(settings: OAuthAssertion) -> Callable[[bytes], bytes]:
    path = settings.private_key_file or ""
    content, passphrase = _read(path), settings.private_key_passphrase
    try:
        key = serialization.load_pem_private_key(content, None if passphrase is None else passphrase.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Its own words may have more than which file it is.
        raise BadAssertion(
            f"{path} has no private key that can be read with the passphrase that is set, or without one"
        ) from None
    if settings.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
        return lambda signed: key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    if (
        settings.algorithm == "ES256"
        and isinstance(key, ec.EllipticCurvePrivateKey)
        and isinstance(key.curve, ec.SECP256R1)
    ):
        return lambda signed: _signature_of_es256(key, signed)
    raise BadAssertion(f"{path} has a private key that is not for {settings.algorithm}")


def _signature_of_es256(key: ec.EllipticCurvePrivateKey, signed: bytes) -> bytes:
    numbers = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(_ES256_BYTES, "big") for number in numbers)


def _template(path: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    if path is None:
        return {}, {}
    try:
        found: object = json.loads(_read(path))
    except (ValueError, RecursionError):
        found = None
    parts: Mapping[str, object] = cast("Mapping[str, object]", found) if isinstance(found, dict) else {}
    header, claims = parts.get("header", {}), parts.get("payload", {})
    if not parts or not isinstance(header, dict) or not isinstance(claims, dict):
        raise BadAssertion(f'{path} is not of the form {{"header": {{...}}, "payload": {{...}}}}')
    return cast("dict[str, Any]", header), cast("dict[str, Any]", claims)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise BadAssertion(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _MOST_BYTES:
        raise BadAssertion(f"{path} has more than {_MOST_BYTES} bytes")
    return content


def _json(part: Mapping[str, Any]) -> bytes:
    return _encoded(json.dumps(part, separators=(",", ":")).encode())


def _encoded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
