"""`python -m tidelog.kernel.cli.config_docs` prints `docs/configuration.md` from the keys themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.sinks import COMMON_SINK_KEYS
from tidelog.kernel.config.types import LONG_MAX, Scope
from tidelog.kernel.config.unsupported import UnsupportedKey
from tidelog.kernel.plugins import builtin, load_plugins
from tidelog.kernel.plugins.discovery import find_candidates

_INTRODUCTION = """\
# Configuration keys

Written by `make docs` from the keys in the code; do not edit by hand. [running.md](running.md) describes
how to set them, and `tidelog config` shows the same keys with their values and where these come from.

Names, defaults and ranges are Apache Kafka's wherever Kafka has the key. An unknown key or a value out of
range is refused at start, with the nearest valid name. In the environment, `log.dirs` is `TIDELOG_LOG_DIRS`.
"""

_SINKS = """\
## Keys of every sink

A sink is configured by a table `[sinks.KIND.NAME]` with these keys and those of its kind, see
[sinks.md](sinks.md); elsewhere the names are `sinks.KIND.NAME.KEY`.
"""

_WITHOUT_MEANING = """\
## Kafka's keys without a meaning here

They may stay in a `server.properties`: the broker accepts them, and logs a warning with the reason why
they have no effect.

| key | of | why it has no effect |
|---|---|---|
"""

_WITHOUT_PART = """\
## Kafka's keys that are refused

This broker lacks the features that they configure, so a setting that a user relies on would have no
effect. Values that ask for nothing are accepted. A plugin that adds a feature declares its keys.

| key | of | missing feature | values that are accepted |
|---|---|---|---|
"""


def render(
    handed_over: Iterable[tuple[str, Iterable[ConfigKey[object]]]],
    unsupported: Iterable[UnsupportedKey] = (),
    sink_kinds: Mapping[str, Iterable[ConfigKey[object]]] | None = None,
) -> str:
    """Return the whole page, for keys by the names of the plugins that hand them over."""
    sections = [_INTRODUCTION]
    by_owner = _by_first_owner(handed_over)
    for scope, title in _TITLES.items():
        for owner, keys in by_owner:
            title_of = "the kernel" if owner == builtin.NAME else f"`{owner}`"
            rows = [_row(key) for key in sorted(keys, key=str) if key.scope == scope]
            if rows:
                sections.append("\n".join((f"## {title} of {title_of}\n", _HEADS[scope], *rows)) + "\n")
    sections.append("\n".join((_SINKS, _HEADS["broker"], *map(_row, COMMON_SINK_KEYS))) + "\n")
    for kind, keys_of_kind in sorted((sink_kinds or {}).items()):
        rows = [_row(key) for key in keys_of_kind]
        sections.append(
            "\n".join((f"## Keys of sinks of the kind `{kind}`\n", _HEADS["broker"], *rows)) + "\n"
        )
    here = {(key.scope, key.name) for _, keys in by_owner for key in keys}
    elsewhere = sorted(key for key in unsupported if (key.scope, key.name) not in here)
    sections.append(_WITHOUT_MEANING + "".join(_accepted(elsewhere)))
    sections.append(_WITHOUT_PART + "".join(_refused(elsewhere)))
    return "\n".join(sections)


def _by_first_owner(
    by_owner: Iterable[tuple[str, Iterable[ConfigKey[object]]]],
) -> list[tuple[str, list[ConfigKey[object]]]]:
    """List a key that several plugins return only with the first of them."""
    seen: set[tuple[Scope, str]] = set()
    found: list[tuple[str, list[ConfigKey[object]]]] = []
    for owner, keys in by_owner:
        own = [key for key in keys if (key.scope, key.name) not in seen]
        seen.update((key.scope, key.name) for key in own)
        found.append((owner, own))
    return found


_TITLES: dict[Scope, str] = {
    "broker": "Broker keys",
    "topic": "Topic keys",
    "group": "Group keys",
    "client-metrics": "Keys of client metrics",
}
_OF_RESOURCES = "| key | type | default | set for all {} by | meaning |\n|---|---|---|---|---|"
_HEADS: dict[Scope, str] = {
    "broker": "| key | type | default | meaning |\n|---|---|---|---|",
    "topic": _OF_RESOURCES.format("topics"),
    "group": _OF_RESOURCES.format("groups"),
    "client-metrics": "| key | type | default | meaning |\n|---|---|---|---|",
}


def _row(key: ConfigKey[object]) -> str:
    name = f"`{key.name}`" + "".join(f", `{alias}`" for alias in key.aliases)
    kind = f"{key.type.name}: {key.type.allowed}" if key.type.allowed else key.type.name
    default = _default(key)
    cells = [name, kind, default]
    if key.scope in ("topic", "group"):
        cells.append(", ".join(f"`{source.key.name}`" for source in key.broker_defaults))
    cells.append(key.documentation + _more(key))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _more(key: ConfigKey[object]) -> str:
    return " Can be changed while the broker runs." if key.dynamic else ""


def _default(key: ConfigKey[object]) -> str:
    if key.required:
        return "has to be set"
    if key.default == LONG_MAX:
        return "2^63-1 (no limit)"
    if key.default == sys.float_info.max:
        return "the largest double (no limit)"
    text = key.type.format(key.default)
    return f"`{text}`" if text else ""


def _accepted(keys: Sequence[UnsupportedKey]) -> Iterator[str]:
    for scope in get_args(Scope):
        for key in keys:
            if key.scope == scope and key.meaningless:
                yield f"| `{key.name}` | {scope} | {key.meaningless} |\n"


def _refused(keys: Sequence[UnsupportedKey]) -> Iterator[str]:
    for scope in get_args(Scope):
        for key in keys:
            if key.scope == scope and key.missing:
                values = ", ".join(f"`{value}`" if value else "(empty)" for value in key.neutral)
                yield f"| `{key.name}` | {scope} | {key.missing} | {values} |\n"


def default_bundle_page() -> str:
    """Return the page for the plugins of tidelog's own distribution, whatever else is installed.

    Raises:
        PluginError: one of them is broken.
    """
    others = [
        name
        for name, candidate in find_candidates().items()
        if candidate.source is None or candidate.source.name != "tidelog"
    ]
    plugins = load_plugins(blocked=others)
    kinds = {name: kind.keys for name, kind in plugins.sink_kinds().items()}
    return render(plugins.config_keys_by_plugin, plugins.unsupported_keys(), kinds)


if __name__ == "__main__":
    print(default_bundle_page(), end="")
