"""The messages of SCRAM and what both ends compute of them (RFC 5802), without channel binding.

client first: n,,n=USER,r=NONCE          server first: r=NONCE+NONCE,s=SALT,i=ITERATIONS
client final: c=biws,r=NONCE+NONCE,p=PROOF            server final: v=SIGNATURE
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.kernel.metadata.scram import ScramCredential, ScramMechanism

NONCE_BYTES: Final = 24
SALT_CHARACTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
SALT_LENGTH: Final = 26
"""A salt of Kafka's tools is so many of these: all look alike, also that for a user that is unknown."""
BY_TOKEN: Final = "tokenauth"  # noqa: S105 - an attribute of a message
"""`tokenauth=true` in the first message: the user is a delegation token (KIP-48)."""
_NO_BINDING: Final = "n"
_ATTRIBUTE_PREFIX: Final = 2


class BadScramMessage(ValueError):
    """A message has not the form of RFC 5802; the text says what is missing."""


class ClientFirst(NamedTuple):
    """The first message of a client; `header` begins it and comes back in its final message."""

    header: str
    bare: str
    user: str
    authorize_as: str
    nonce: str
    extensions: Mapping[str, str]

    @property
    def is_by_token(self) -> bool:
        """Whether the user is the id of a delegation token."""
        return self.extensions.get(BY_TOKEN, "").lower() == "true"


class ClientFinal(NamedTuple):
    """The final message of a client; `without_proof` is signed."""

    channel: bytes
    nonce: str
    proof: bytes
    without_proof: str


class ServerFirst(NamedTuple):
    """The first message of a server."""

    nonce: str
    salt: bytes
    iterations: int


def new_nonce() -> str:
    """Return a nonce that was never used."""
    return base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()


def new_salt() -> bytes:
    """Return a salt for a new password."""
    return "".join(secrets.choice(SALT_CHARACTERS) for _ in range(SALT_LENGTH)).encode()


def escaped(name: str) -> str:
    """Return a name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _unescaped(name: str) -> str:
    for part in name.split("=")[1:]:
        if not part.startswith(("2C", "3D")):
            raise BadScramMessage("a name has an = that is neither =2C nor =3D")
    return name.replace("=2C", ",").replace("=3D", "=")


def parse_client_first(token: bytes) -> ClientFirst:
    """Parse the first message of a client.

    Raises:
        BadScramMessage: it has another form.
    """
    binding, _, rest = _text(token).partition(",")
    authorize_as, separator, bare = rest.partition(",")
    if binding != _NO_BINDING or not separator or (authorize_as and not authorize_as.startswith("a=")):
        raise BadScramMessage("it does not begin with n,, (channel binding is not supported)")
    fields = _fields(bare)
    if "m" in fields or "n" not in fields or not fields["n"] or not fields.get("r"):
        raise BadScramMessage("it needs a name n= and a nonce r=, and no mandatory extension m=")
    extensions = {name: value for name, value in fields.items() if name not in ("n", "r")}
    return ClientFirst(
        f"{binding},{authorize_as},",
        bare,
        _unescaped(fields["n"]),
        _unescaped(authorize_as[_ATTRIBUTE_PREFIX:]),
        fields["r"],
        extensions,
    )


def parse_client_final(token: bytes) -> ClientFinal:
    """Parse the final message of a client.

    Raises:
        BadScramMessage: it has another form.
    """
    without_proof, separator, proof = _text(token).rpartition(",p=")
    fields = _fields(without_proof) if separator else {}
    if "c" not in fields or "r" not in fields or not proof:
        raise BadScramMessage("it needs c=, r= and p=")
    return ClientFinal(_bytes(fields["c"]), fields["r"], _bytes(proof), without_proof)


def parse_server_first(token: bytes) -> ServerFirst:
    """Parse the first message of a server.

    Raises:
        BadScramMessage: it has another form.
    """
    fields = _fields(_text(token))
    iterations = fields.get("i", "")
    if not fields.get("r") or "s" not in fields or not (iterations.isascii() and iterations.isdigit()):
        raise BadScramMessage("it needs r=, s= and i=")
    return ServerFirst(fields["r"], _bytes(fields["s"]), int(iterations[:10]))


def parse_server_final(token: bytes) -> tuple[bytes, str]:
    """Return the signature of a server, or else its error.

    Raises:
        BadScramMessage: there is neither.
    """
    fields = _fields(_text(token))
    if "e" in fields:
        return b"", fields["e"]
    if "v" not in fields:
        raise BadScramMessage("it needs v= or e=")
    return _bytes(fields["v"]), ""


def encoded(content: bytes) -> str:
    """Return bytes as messages have them."""
    return base64.b64encode(content).decode()


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what both keys are derived from; takes about 1 ms for 4096 iterations."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def credential_of(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """Return what a broker has to have of a salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def client_proof(mechanism: ScramMechanism, salted: bytes, signed: bytes) -> bytes:
    """Return the proof of a client for the messages `signed`."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
    return _xor(client_key, signature)


def is_proven(mechanism: ScramMechanism, stored_key: bytes, proof: bytes, signed: bytes) -> bool:
    """Return whether a proof was made with the password, in constant time."""
    name = mechanism.hash_name
    signature = hmac.digest(stored_key, signed, name)
    if len(proof) != len(signature):
        return False
    return hmac.compare_digest(hashlib.new(name, _xor(proof, signature)).digest(), stored_key)


def server_signature(mechanism: ScramMechanism, server_key: bytes, signed: bytes) -> bytes:
    """Return by what the server proves that it knows the user."""
    return hmac.digest(server_key, signed, mechanism.hash_name)


def server_key_of(mechanism: ScramMechanism, salted: bytes) -> bytes:
    """Return the key of the server's signatures."""
    return hmac.digest(salted, b"Server Key", mechanism.hash_name)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise BadScramMessage("it is no UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or name in fields or "\0" in value:
            raise BadScramMessage("its parts are not each name=value, and each once")
        fields[name] = value
    return fields


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadScramMessage("a part is no base64") from None
