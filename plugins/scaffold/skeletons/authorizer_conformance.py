"""The suite of authorizers, with its rules as this one reads them: access control entries of the image."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.config import Config
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.seams.authorizer import Authorizer, AuthorizerContext
from tidelog.kernel.testing.authorizer import (
    AccessRule,
    AuthorizerConformance,
    image_of_rules,
    image_of_unknown_entry,
)
from tidelog.kernel.testing.installed import installed_plugins, with_installed_keys
from tidelog.plugins.scaffold.skeletons.authorizer_decisions import SkeletonAuthorizer


def created(image: MetadataImage) -> Authorizer:
    """Return an authorizer that goes by an image."""
    plugins = installed_plugins()
    config = Config.from_mapping({}, with_installed_keys([]))
    standard = plugins.authorizer_backend("standard")
    wrapped = standard.create(AuthorizerContext(config, plugins.authorizer_backend))
    authorizer = SkeletonAuthorizer(wrapped, closed=["closed"])
    authorizer.load(image)
    return authorizer


class SkeletonAuthorizerConformance(AuthorizerConformance):
    """It allows what access control entries allow, and nothing else."""

    def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
        """Return an authorizer for these rules."""
        return created(image_of_rules(rules))

    def broken(self) -> Authorizer:
        """Return an authorizer that knows nothing of what its rules say."""
        return created(image_of_unknown_entry())
