"""The suite of SASL mechanisms for this one: its users, and a client of it."""

from __future__ import annotations

from tidelog.kernel.seams.sasl import SaslMechanism
from tidelog.kernel.testing.sasl import SECRETS, SaslMechanismConformance, Tokens
from tidelog.plugins.scaffold.skeletons.sasl_mechanism import SkeletonMechanism


class SkeletonSaslConformance(SaslMechanismConformance):
    """A client sends the same each time."""

    replayable = True

    def mechanism(self) -> SaslMechanism:
        """Return a mechanism that knows both users."""
        return SkeletonMechanism({user: secret.encode() for user, secret in SECRETS.items()})

    def tokens(self, user: str, secret: str) -> Tokens:
        """Return a client of one token."""
        yield f"{user}:{secret}".encode()
