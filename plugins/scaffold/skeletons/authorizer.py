"""An authorizer: decides as `standard` does, and refuses writes to the topics that are closed."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.kernel import ConfigKey, hookimpl
from tidelog.kernel.config import comma_list
from tidelog.kernel.seams.authorizer import Authorizer, AuthorizerBackend, AuthorizerContext
from tidelog.plugins.scaffold.skeletons.authorizer_decisions import SkeletonAuthorizer

TIDELOG_INTERFACE = "1.0"
"""The version of the plugin interface that this is written for."""

CLOSED_TOPICS = ConfigKey(
    name="skeleton.closed.topics",
    type=comma_list(),
    default=(),
    documentation="Topics that no client may write to, whatever access control entries say.",
)


class SkeletonAuthorizerBackend:
    """What the key `authorizer.class.name` chooses."""

    name = "skeleton"

    def create(self, context: AuthorizerContext) -> Authorizer:
        """Return an authorizer that has loaded no image yet."""
        wrapped = context.backend("standard").create(context)
        return SkeletonAuthorizer(wrapped, context.config[CLOSED_TOPICS])


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[tuple[str, ...]]]:
    """Return the keys of the authorizer."""
    return [CLOSED_TOPICS]


@hookimpl
def tidelog_authorizers() -> Iterable[AuthorizerBackend]:
    """Offer the authorizer."""
    return [SkeletonAuthorizerBackend()]


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the authorizer."""
    from tidelog.plugins.scaffold.skeletons.authorizer_conformance import SkeletonAuthorizerConformance

    return [SkeletonAuthorizerConformance]
