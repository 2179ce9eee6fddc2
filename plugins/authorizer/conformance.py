"""The suite of authorizers for `standard`."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.kernel.metadata import MetadataImage
from tidelog.kernel.seams.authorizer import Authorizer
from tidelog.kernel.testing.authorizer import (
    AccessRule,
    AuthorizerConformance,
    image_of_rules,
    image_of_unknown_entry,
)
from tidelog.plugins.authorizer.standard import StandardAuthorizer


def standard_with(image: MetadataImage) -> StandardAuthorizer:
    """Return the authorizer with the entries of an image."""
    authorizer = StandardAuthorizer(frozenset(), allow_without_entries=False)
    authorizer.load(image)
    return authorizer


class StandardAuthorizerConformance(AuthorizerConformance):
    """It keeps the contract."""

    def authorizer(self, rules: Sequence[AccessRule]) -> Authorizer:
        """Return the authorizer with an entry for each rule."""
        return standard_with(image_of_rules(rules))

    def broken(self) -> Authorizer:
        """Return the authorizer with an entry of a Kafka that knows more than this broker does."""
        return standard_with(image_of_unknown_entry())
