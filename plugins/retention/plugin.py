"""Hooks of retention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.config import declared_keys
from tidelog.kernel.hookspecs import hookimpl
from tidelog.plugins.retention import keys

if TYPE_CHECKING:
    from tidelog.kernel.config import ConfigKey
    from tidelog.kernel.seams.cleanup import CleanupPolicy


@hookimpl
def tidelog_config_keys() -> Iterable[ConfigKey[object]]:
    """Return the keys of retention."""
    return declared_keys(keys)


@hookimpl
def tidelog_cleanup_policies() -> Iterable[CleanupPolicy]:
    """Offer the policy `delete`."""
    # Not at the top: commands that only ask for a configuration never need it.
    from tidelog.plugins.retention.policy import RetentionPolicy

    return (RetentionPolicy(),)
