"""An identity provider: signs access tokens, and has the set of its public keys."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://id.example", "kafka"

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class Provider:
    """Keys by their ids; the one that was added last signs."""

    def __init__(self, *, algorithm: str = "RS256", key_id: str = "first") -> None:
        self.keys: dict[str, tuple[PrivateKey, str]] = {}
        self.add(key_id, algorithm)

    def add(self, key_id: str, algorithm: str = "RS256") -> None:
        key: PrivateKey
        match algorithm[:2]:
            case "ES":
                key = ec.generate_private_key(ec.SECP256R1())
            case "Ed":
                key = ed25519.Ed25519PrivateKey.generate()
            case _:
                key = rsa.generate_private_key(65537, 2048)
        self.keys[key_id] = key, algorithm

    def token(
        self, user: str = "alice", *, key_id: str | None = None, header: Mapping[str, str] = {}, **claims: Any
    ) -> str:
        """A token with these claims over usual ones; None leaves a claim out."""
        name = key_id or [*self.keys][-1]
        key, algorithm = self.keys[name]
        wanted = {**usual_claims(user), **claims}
        return jwt.encode(
            {name: value for name, value in wanted.items() if value is not None},
            key,
            algorithm=algorithm,
            headers={"kid": name, **header},
        )

    def key_set(self, *key_ids: str) -> str:
        """The public keys as JSON."""
        names = key_ids or tuple(self.keys)
        return json.dumps({"keys": [self._public(name) for name in names]})

    def _public(self, name: str) -> dict[str, str]:
        key, algorithm = self.keys[name]
        maker = jwt.get_algorithm_by_name(algorithm)
        public: dict[str, str] = maker.to_jwk(key.public_key(), as_dict=True)
        return {**public, "kid": name, "use": "sig", "alg": algorithm}

    def write(self, path: Path) -> str:
        """Write the public keys to a file; return its URL."""
        path.write_text(self.key_set())
        return f"file://{path}"


def usual_claims(user: str) -> dict[str, Any]:
    """What a good token claims."""
    now = int(time.time())
    return {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now - 1, "exp": now + 600}


def unsecured(claims: Mapping[str, Any], header: Mapping[str, str] | None = None, signature: str = "") -> str:
    """A token without a signature."""
    parts = (json.dumps(each).encode() for each in (header or {"alg": "none"}, claims))
    return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), signature])
