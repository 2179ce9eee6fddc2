"""The messages of OAUTHBEARER (RFC 7628), as Kafka's clients write them (KIP-255, KIP-342).

client first: n,a=USER,^Aauth=Bearer TOKEN^Akey=value^A^A
server: nothing, or {"status":"invalid_token"}; the client then: ^A    (^A is the byte 1)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

SEPARATOR: Final = "\x01"
GIVEN_UP: Final = b"\x01"
"""What a client answers to an error, so that the exchange ends."""
_AUTH: Final = "auth"
_SCHEME: Final = "bearer"
_KEY: Final = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+", re.ASCII)
_TOKEN: Final = re.compile(r"[-_.A-Za-z0-9]+", re.ASCII)
_ESCAPE: Final = re.compile(r"=(2C|3D)")
_ESCAPED: Final = {"2C": ",", "3D": "="}


class BadOAuthMessage(ValueError):
    """A message has not the form of RFC 7628; the text has nothing of the token."""


class OAuthClientFirst(NamedTuple):
    """The first message of a client."""

    authorize_as: str
    token: str
    extensions: Mapping[str, str]


def client_first(token: str, extensions: Mapping[str, str], authorize_as: str = "") -> bytes:
    """Return the first message of a client.

    Raises:
        BadOAuthMessage: the token or an extension has characters that a message cannot have.
    """
    if not _TOKEN.fullmatch(token):
        raise BadOAuthMessage("the access token has other characters than those of a JWT")
    for key, value in extensions.items():
        if key == _AUTH or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise BadOAuthMessage(
                f"the extension {key!r} needs a name of letters, not auth, and a printable value"
            )
    name = authorize_as.replace("=", "=3D").replace(",", "=2C")
    pairs = [f"{_AUTH}=Bearer {token}", *(f"{key}={value}" for key, value in extensions.items())]
    header = f"n,a={name}," if name else "n,,"
    return (header + "".join(SEPARATOR + pair for pair in pairs) + SEPARATOR * 2).encode()


def parse_oauth_client_first(message: bytes) -> OAuthClientFirst:
    """Parse the first message of a client.

    Raises:
        BadOAuthMessage: it has another form.
    """
    try:
        header, _, rest = message.decode("ascii").partition(SEPARATOR)
    except UnicodeDecodeError:
        raise BadOAuthMessage("it has other bytes than those of ASCII") from None
    *pairs, last, end = rest.split(SEPARATOR) if rest.count(SEPARATOR) > 1 else ("", "", "-")
    if last or end:
        raise BadOAuthMessage("it does not end with two separators (byte 1)")
    fields = _pairs(pairs)
    scheme, _, token = fields.pop(_AUTH, "").partition(" ")
    token = token.strip(" ")
    if scheme.lower() != _SCHEME or not _TOKEN.fullmatch(token):
        raise BadOAuthMessage("it needs auth=Bearer TOKEN")
    return OAuthClientFirst(_authorize_as(header), token, fields)


def _authorize_as(header: str) -> str:
    binding, *rest = header.split(",")
    match rest:
        case [name, ""] if binding == "n" and (not name or name.startswith("a=")):
            escaped = name.removeprefix("a=")
            if "=" in _ESCAPE.sub("", escaped) or (name and not escaped):
                raise BadOAuthMessage("its authorization id is malformed")
            return _ESCAPE.sub(lambda match: _ESCAPED[match[1]], escaped)
        case _:
            raise BadOAuthMessage("it does not begin with n,, (channel binding is not supported)")


def _pairs(parts: list[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        if key in fields or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise BadOAuthMessage("its parts are not each key=value, and each once")
        fields[key] = value
    return fields


def error_message(status: str, scope: str = "") -> str:
    """Return what a broker answers to a token that it does not take."""
    fields = {"status": status, "scope": scope} if scope else {"status": status}
    return json.dumps(fields, separators=(",", ":"))
