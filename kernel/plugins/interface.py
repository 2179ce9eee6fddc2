"""Version of the plugin interface: what a plugin may state that it is written for, and what is deprecated."""

from __future__ import annotations

import logging
import re
from types import ModuleType
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernel.errors import PluginError

if TYPE_CHECKING:
    import pluggy

    from tidelog.kernel.plugins.discovery import Candidate

_log = logging.getLogger(__name__)

ATTRIBUTE: Final = "TIDELOG_INTERFACE"
"""The global of a plugin's module with the version that it is written for, such as `"1.0"`."""
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class InterfaceVersion(NamedTuple):
    """A version of what is public to plugins: a new major one removes or changes, a new minor one adds."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


INTERFACE: Final = InterfaceVersion(1, 0)
"""The version of this tidelog."""


def refuse_other_interface(module: ModuleType, candidate: Candidate) -> None:
    """Check that a plugin is written for this version, or states none.

    Raises:
        PluginError: it is for another major version, or for a later minor one; names both and the remedy.
    """
    stated: object = getattr(module, ATTRIBUTE, str(INTERFACE))
    found = _VERSION.fullmatch(stated) if isinstance(stated, str) else None
    if found is None:
        raise PluginError(
            f"The plugin {candidate} has {ATTRIBUTE} = {stated!r}, which is no version such as "
            f'"{INTERFACE}".',
            candidate.name,
        )
    wanted = InterfaceVersion(*map(int, found.groups()))
    if wanted.major == INTERFACE.major and wanted.minor <= INTERFACE.minor:
        return
    later = wanted > INTERFACE
    remedy = (
        f"Install a tidelog with that version, or a release of the plugin for {INTERFACE.major}.x"
        if later
        else f"Install a release of the plugin for {INTERFACE.major}.x"
    )
    raise PluginError(
        f"The plugin {candidate} is written for version {wanted} of the plugin interface, and this tidelog "
        f"has {INTERFACE}. {remedy}, or block it: plugins.blocked={candidate.name}",
        candidate.name,
    )


def log_deprecated_hooks(manager: pluggy.PluginManager, module: object, candidate: Candidate) -> None:
    """Log each hook of a plugin that is marked with `hookspec(warn_on_impl=...)`: a major version removes it.

    pluggy issues the same as a warning of Python, which tests show and programs hide.
    """
    for caller in manager.get_hookcallers(module) or ():
        if caller.spec is not None and caller.spec.warn_on_impl is not None:
            _log.warning(
                "the plugin %s implements %s, which is deprecated: %s",
                candidate.name,
                caller.name,
                caller.spec.warn_on_impl,
                extra={"plugin": candidate.name},
            )
