"""Access tokens as JWTs (RFC 7519): what they claim, and which claims are taken.

Source: Kafka's `BrokerJwtValidator` (KIP-768) for signed ones, `OAuthBearerUnsecuredJws` (KIP-255) for those
without a signature.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

import attrs

NO_SIGNATURE: Final = "none"
_PARTS: Final = 3
_MAX_NAME_CHARACTERS: Final = 1024
_LATEST_S: Final = 253_402_300_800
"""The year 10000: a later time is no time, and its milliseconds are no int64."""


class BadAccessToken(Exception):
    """A token is not taken; `status` is for the client (RFC 7628), the text for the log of the broker."""

    def __init__(self, reason: str, status: str = "invalid_token", scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


class UnknownSigner(BadAccessToken):
    """A token names a key that is not known: the identity provider may have added it since keys were read."""


class AccessToken(NamedTuple):
    """Who has shown a token that is taken, and when it ends in milliseconds since the epoch."""

    user: str
    expires_at_ms: int


@attrs.frozen(kw_only=True)
class TokenRules:
    """Which claims are taken.

    Attributes:
        audiences: one of these has to be in `aud`; none of them: whatever is there
        issuer: what `iss` has to be; None for any
        scopes: all of these have to be there
        scope_claim: the claim with the scopes, a list or a text with spaces between them
        subject_claim: the claim with the user
        skew_s: by how many seconds the clock of the issuer may differ
        has_to_be_dated: whether `iat` has to be there
    """

    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    scopes: frozenset[str] = frozenset()
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    skew_s: float = 0.0
    has_to_be_dated: bool = True

    def taken(self, claims: Mapping[str, object], now_ms: int) -> AccessToken:
        """Return whom the claims are for.

        Raises:
            BadAccessToken: they are not taken.
        """
        expires_at_s = self._check_times(claims, now_ms / 1000)
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise BadAccessToken("its issuer (iss) is another one than sasl.oauthbearer.expected.issuer")
        if self.audiences and not _texts(claims.get("aud")) & set(self.audiences):
            raise BadAccessToken("its audience (aud) has none of sasl.oauthbearer.expected.audience")
        self._check_scopes(claims)
        user = claims.get(self.subject_claim)
        if not isinstance(user, str) or not user.strip() or len(user) > _MAX_NAME_CHARACTERS:
            raise BadAccessToken(f"its claim {self.subject_claim} is no name of a user")
        return AccessToken(user, int(expires_at_s * 1000))

    def _check_times(self, claims: Mapping[str, object], now_s: float) -> float:
        expires_at, issued_at, begins_at = (_time(claims, name) for name in ("exp", "iat", "nbf"))
        if expires_at is None:
            raise BadAccessToken("it has no end (exp)")
        if issued_at is None and self.has_to_be_dated:
            raise BadAccessToken("it has no time at which it was issued (iat)")
        if now_s >= expires_at + self.skew_s:
            raise BadAccessToken("it has expired")
        # An identity provider whose clock is ahead, or a token that is for later.
        for begins in (issued_at, begins_at):
            if begins is not None and now_s < begins - self.skew_s:
                raise BadAccessToken("it is of the future (iat or nbf)")
        if issued_at is not None and issued_at >= expires_at:
            raise BadAccessToken("it ends before it was issued")
        return expires_at

    def _check_scopes(self, claims: Mapping[str, object]) -> None:
        found = claims.get(self.scope_claim)
        scopes = frozenset(found.split()) if isinstance(found, str) else _texts(found)
        if not self.scopes <= scopes:
            needed = " ".join(sorted(self.scopes))
            raise BadAccessToken(
                f"its claim {self.scope_claim} has not all of {needed}", "insufficient_scope", needed
            )


def _time(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LATEST_S:
        raise BadAccessToken(f"its claim {name} is no time")
    return float(value)


def _texts(claim: object) -> frozenset[str]:
    if isinstance(claim, str):
        return frozenset((claim,))
    items = cast("list[object]", claim) if isinstance(claim, list) else []
    return frozenset(item for item in items if isinstance(item, str))


def parse_json_object(content: bytes) -> Mapping[str, object]:
    """Return the object that a part of a token is.

    Raises:
        BadAccessToken: it is none.
    """
    try:
        found: object = json.loads(content, parse_constant=_refuse_constant)
    # RecursionError: lists in lists in lists.
    except (ValueError, RecursionError):
        raise BadAccessToken("a part of it is no JSON") from None
    if not isinstance(found, dict):
        raise BadAccessToken("a part of it is no JSON object")
    return cast("dict[str, object]", found)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def parts_of(token: str) -> tuple[Mapping[str, object], bytes, str]:
    """Return the header of a token, its claims as they are encoded, and its signature in base64.

    Raises:
        BadAccessToken: it is no JWT.
    """
    parts = token.split(".")
    if len(parts) != _PARTS:
        raise BadAccessToken("it is no JWT")
    return parse_json_object(_decoded(parts[0])), _decoded(parts[1]), parts[2]


def unsecured_claims(token: str) -> Mapping[str, object]:
    """Return the claims of a token without a signature.

    Raises:
        BadAccessToken: it is no JWT, or has a signature.
    """
    header, claims, signature = parts_of(token)
    if header.get("alg") != NO_SIGNATURE or signature:
        raise BadAccessToken("it has a signature, and this listener takes unsecured tokens")
    return parse_json_object(claims)


def _decoded(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadAccessToken("a part of it is no base64") from None
