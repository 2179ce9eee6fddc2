"""Discovery of plugins: installed distributions announce them, the key `plugins` names further modules."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import attrs

from tidelog.kernel.config.types import nearest_name
from tidelog.kernel.errors import PluginError

if TYPE_CHECKING:
    from importlib.metadata import Distribution

ENTRY_POINT_GROUP = "tidelog"


@attrs.frozen
class Candidate:
    """A plugin that can be loaded; nothing of it is imported yet.

    `source` is the distribution that announces it, None for a module that the key `plugins` names.
    """

    name: str
    module: str
    source: Distribution | None = attrs.field(eq=False)

    def __str__(self) -> str:
        if self.source is None:
            return f"{self.name} (named in the key `plugins`)"
        return f"{self.name} (module {self.module}, from {self.source.name} {self.source.version})"

    def load(self) -> ModuleType:
        """Import it.

        Raises:
            PluginError: the import failed; names plugin, distribution and cause.
        """
        try:
            return importlib.import_module(self.module)
        except Exception as error:
            raise PluginError(self._failure(error), self.name) from error

    def _failure(self, error: Exception) -> str:
        cause = f"{type(error).__name__}: {error}"
        if self.source is not None:
            remedy = f"Repair that distribution, or block the plugin: plugins.blocked={self.name}"
        elif isinstance(error, ModuleNotFoundError) and error.name == self.module.partition(".")[0]:
            remedy = "Install it, or put its folder into PYTHONPATH."
        else:
            remedy = "Repair it, or take it out of `plugins`."
        return f"The plugin {self} cannot be imported: {cause}. {remedy}"


def find_candidates(extra: Sequence[str] = ()) -> dict[str, Candidate]:
    """Return all plugins by name: those of installed distributions, then `extra` modules by module name.

    Raises:
        PluginError: two distributions announce plugins of the same name.
    """
    found: dict[str, Candidate] = {}
    for candidate in _announced():
        other = found.setdefault(candidate.name, candidate)
        if other != candidate:
            raise PluginError(
                f"Two plugins have the same name: {other} and {candidate}. Uninstall one of the "
                "distributions."
            )
    known = {candidate.module for candidate in found.values()}
    found.update({module: Candidate(module, module, None) for module in extra if module not in known})
    return found


def _announced() -> Iterator[Candidate]:
    """Return the plugins that installed distributions announce.

    `importlib.metadata.entry_points` parses what every distribution announces, which takes most of the time
    in which a broker for a test starts; few of them are of this group.
    """
    # Not at the top: it takes 20 ms, and a program with its own plugins never needs it.
    from importlib.metadata import distributions

    header = f"[{ENTRY_POINT_GROUP}]"
    announcing = [each for each in distributions() if header in (each.read_text("entry_points.txt") or "")]
    # Of distributions of one name the first on the import path is imported. Names are asked for only if there
    # are several, since each is in a file that has to be parsed.
    first: dict[str, Distribution] = {}
    if len(announcing) > 1:
        for each in announcing:
            first.setdefault(each.name, each)
    for distribution in first.values() or announcing:
        for entry_point in distribution.entry_points.select(group=ENTRY_POINT_GROUP):
            yield Candidate(entry_point.name, entry_point.module, distribution)


def refuse_unknown_blocked(blocked: Iterable[str], candidates: Iterable[str]) -> None:
    """Check that each blocked name is that of a plugin.

    Raises:
        PluginError: one is not.
    """
    names = sorted(candidates)
    for name in blocked:
        if name not in names:
            near = nearest_name(name, names)
            hint = f" Did you mean {near}?" if near else ""
            raise PluginError(
                f"plugins.blocked names {name}, but no such plugin is installed. Installed are: "
                f"{', '.join(names)}.{hint}"
            )
