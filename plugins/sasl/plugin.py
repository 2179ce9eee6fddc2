"""Hooks of the SASL mechanisms; without a listener that has one nothing else is imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.kernel.metadata.scram import ScramMechanism
from tidelog.plugins.sasl import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.sasl import SaslContext, SaslMechanism, SaslMechanismBackend


class PlainBackend:
    """PLAIN."""

    name = "PLAIN"

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return it for a listener."""
        from tidelog.plugins.sasl.plain import Plain

        return Plain(context)


class ScramBackend(NamedTuple):
    """One of the mechanisms of SCRAM."""

    mechanism: ScramMechanism

    @property
    def name(self) -> str:
        """Its name."""
        return self.mechanism.sasl_name

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return it for a listener."""
        from tidelog.plugins.sasl.scram import Scram

        return Scram(self.mechanism, context)


class OAuthBearerBackend:
    """OAUTHBEARER."""

    name = "OAUTHBEARER"

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return it for a listener."""
        from tidelog.plugins.sasl.oauthbearer import OAuthBearer

        return OAuthBearer(context)


class GssapiBackend:
    """GSSAPI."""

    name = "GSSAPI"

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return it for a listener."""
        from tidelog.plugins.sasl.gssapi import Gssapi

        return Gssapi(context)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of mechanisms and users."""
    return declared_keys(keys)


@hookimpl
def tidelog_sasl_mechanisms() -> Iterable[SaslMechanismBackend]:
    """Offer the mechanisms."""
    return (PlainBackend(), OAuthBearerBackend(), GssapiBackend(), *map(ScramBackend, ScramMechanism))
