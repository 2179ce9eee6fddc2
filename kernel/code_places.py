"""Places of code in log lines, and the plugins that they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from traceback import walk_tb
from types import FrameType
from typing import NamedTuple


class Raised(NamedTuple):
    """Where an error is from: the plugin, empty if it is the broker itself, and the line."""

    plugin: str
    place: str

    def __str__(self) -> str:
        return f"{f'the plugin {self.plugin} at ' if self.plugin else ''}{self.place}"


def raised_in(error: BaseException, plugins: Mapping[str, str]) -> Raised:
    """Return the plugin's line that comes last in the traceback of an error, else the last line of all.

    `plugins` maps the modules of plugins to their names.
    """
    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        if plugin := plugin_of(module_of(frame), plugins):
            return Raised(plugin, place_of(frame, line))
    return Raised("", place_of(*frames[-1]) if frames else "an unknown place")


def plugins_by_module(modules: Mapping[str, str]) -> dict[str, str]:
    """Return the names of plugins by their modules, and by the packages around these that no other one has.

    Those of this distribution have their modules alone: their packages say in a log line what they are, and
    what they call of the kernel is not theirs.
    """
    packages = {module: module.rpartition(".")[0] for module in modules}
    shared = Counter(packages.values())
    own = {
        package: modules[module]
        for module, package in packages.items()
        if package and shared[package] == 1 and not module.startswith("tidelog.")
    }
    return own | dict(modules)


def plugin_of(module: str, plugins: Mapping[str, str]) -> str:
    """Return the plugin whose module, or a package above, this is; empty for others."""
    while module:
        if module in plugins:
            return plugins[module]
        module = module.rpartition(".")[0]
    return ""


def module_of(frame: FrameType) -> str:
    """Return the name of the module whose code a frame executes."""
    return str(frame.f_globals.get("__name__"))


def place_of(frame: FrameType, line: int) -> str:
    """Return the module, the line and the function of a frame."""
    return f"{module_of(frame)}:{line} ({frame.f_code.co_qualname})"
