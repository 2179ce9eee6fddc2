"""The suite of authorizers, with its rules as access control entries of the image."""

from __future__ import annotations

from collections.abc import Sequence

from topic_owners import Owners

from tidelog.kernel import Config
from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.seams.authorizer import Authorizer, AuthorizerContext
from tidelog.kernel.testing.authorizer import (
    AccessRule,
    AuthorizerConformance,
    image_of_rules,
    image_of_unknown_entry,
)
from tidelog.kernel.testing.installed import installed_plugins, with_installed_keys


def created(image: MetadataImage) -> Authorizer:
    backend = installed_plugins().authorizer_backend
    config = Config.from_mapping({}, with_installed_keys([]))
    owners = Owners(backend("standard").create(AuthorizerContext(config, backend)))
    owners.load(image)
    return owners


class OwnersConformance(AuthorizerConformance):
    """Topics of the suite have no owner."""

    def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
        return created(image_of_rules(rules))

    def broken(self) -> Authorizer:
        return created(image_of_unknown_entry())
