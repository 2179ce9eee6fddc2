"""A SASL mechanism: a client sends its user and secret as `user:secret`, which are in the configuration."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import Password, password
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.sasl import SaslContext, SaslMechanism, SaslMechanismBackend
from tidelog.plugins.scaffold.skeletons.sasl_mechanism import SkeletonMechanism

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

SECRETS = ConfigKey(
    name="skeleton.secrets",
    type=password(),
    default=Password(""),
    documentation="The users and their secrets: user:secret,user:secret",
)


class SkeletonMechanismBackend:
    """What `sasl.enabled.mechanisms` chooses."""

    name = "SKELETON"

    def create(self, context: SaslContext) -> SaslMechanism:
        """Return the mechanism of a listener."""
        secrets: dict[str, bytes] = {}
        for pair in filter(None, context.config[SECRETS].value.split(",")):
            user, _, secret = pair.partition(":")
            if not user or not secret:
                raise ConfigError(f"{SECRETS.name} has a user without a secret")
            secrets[user] = secret.encode()
        return SkeletonMechanism(secrets)


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[Password]]:
    """Return the keys of the mechanism."""
    return [SECRETS]


@hookimpl
def tidelog_sasl_mechanisms() -> Iterable[SaslMechanismBackend]:
    """Offer the mechanism."""
    return [SkeletonMechanismBackend()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the mechanism."""
    from tidelog.plugins.scaffold.skeletons.sasl_conformance import SkeletonSaslConformance

    return [SkeletonSaslConformance]
