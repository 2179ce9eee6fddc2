"""Hooks of the authorizer `standard`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.authorizer import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.authorizer import Authorizer, AuthorizerBackend, AuthorizerContext


class StandardBackend:
    """An authorizer that goes by the access control entries of the image."""

    name = "standard"

    def create(self, context: AuthorizerContext) -> Authorizer:
        """Return an authorizer without entries; the module that does the work is loaded now."""
        from tidelog.plugins.authorizer.standard import StandardAuthorizer

        config = context.config
        return StandardAuthorizer(
            config[keys.SUPER_USERS],
            allow_without_entries=config[keys.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND],
        )


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of the authorizer."""
    return declared_keys(keys)


@hookimpl
def tidelog_authorizers() -> Iterable[AuthorizerBackend]:
    """Return the authorizer `standard`."""
    return (StandardBackend(),)


@hookimpl
def tidelog_conformance_suites() -> Iterable[type[object]]:
    """Return the tests of the authorizer."""
    from tidelog.plugins.authorizer.conformance import StandardAuthorizerConformance

    return (StandardAuthorizerConformance,)
