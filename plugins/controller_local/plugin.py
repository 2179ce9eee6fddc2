"""Hook of the controller `local`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tidelog.kernel.hookspecs import hookimpl

if TYPE_CHECKING:
    from tidelog.kernel.seams.controller import Controller, ControllerBackend, ControllerContext


class LocalBackend:
    """A controller that commits to the metadata store of its broker."""

    name = "local"

    def create(self, context: ControllerContext) -> Controller:
        """Return a controller that has loaded no image yet; the modules that do the work are loaded now."""
        from tidelog.plugins.controller_local.local import LocalController

        return LocalController(context)


@hookimpl
def tidelog_controllers() -> Iterable[ControllerBackend]:
    """Return the controller `local`."""
    return (LocalBackend(),)
