"""Resolution of settings to values: precedence of sources, unknown keys and invalid values, all reported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import attrs

from tidelog.kernel.config import checks
from tidelog.kernel.config.key import ENVIRONMENT_PREFIX, ConfigKey, environment_variable
from tidelog.kernel.config.registry import ConfigKeys
from tidelog.kernel.config.sinks import is_sink_setting, unknown_setting
from tidelog.kernel.config.sources import DEFAULT_ORIGIN, Layer, Origin, OriginKind, Setting, Sources
from tidelog.kernel.config.types import SECRET_ARGUMENT, T
from tidelog.kernel.errors import ConfigError


class Resolved(NamedTuple):
    """A value and an origin for every broker key, by name; problems, and settings without effect.

    The keys in `invalid` were set to something that is no value of theirs, or by a misspelt name.
    """

    values: dict[str, object]
    origins: dict[str, Origin]
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    invalid: frozenset[str] = frozenset()


@attrs.define
class _Findings:
    problems: list[str]
    values: dict[str, object] = attrs.field(factory=dict[str, object])
    origins: dict[str, Origin] = attrs.field(factory=dict[str, Origin])
    warnings: list[str] = attrs.field(factory=list[str])
    invalid: set[str] = attrs.field(factory=set[str])

    def meant(self, name: str | None) -> None:
        """Note that a key was set under another name: what its default contradicts is no problem."""
        if name is not None:
            self.invalid.add(name)


def resolve(sources: Sources, keys: ConfigKeys) -> Resolved:
    """Return values for all broker keys of `keys`; what is wrong is in `problems`."""
    found = _Findings(problems=list(sources.problems))
    for layer in sources.layers:
        _take_layer(layer, keys, found)
    for key in keys.of_scope("broker"):
        found.values.setdefault(key.name, key.default)
        found.origins.setdefault(key.name, DEFAULT_ORIGIN)
    found.problems += checks.problems(found.values, found.invalid)
    found.problems += _out_of_limits(keys, found)
    found.warnings += checks.warnings(found.values)
    found.warnings += _set_in_vain(keys, found)
    return Resolved(
        found.values, found.origins, tuple(found.problems), tuple(found.warnings), frozenset(found.invalid)
    )


def early_value(sources: Sources, key: ConfigKey[T]) -> T:
    """Return the value of one of the kernel's keys, before the keys of plugins are known.

    With an invalid value it has its default; the value is reported when all is resolved.
    """
    variables = {environment_variable(name) for name in (key.name, *key.aliases)}
    for layer in sources.layers:
        for setting in layer:
            if setting.name in variables or setting.name in (key.name, *key.aliases):
                try:
                    return key.type.parse(setting.text)
                except ValueError:
                    return key.default
    return key.default


def has_effect(key: ConfigKey[object], values: Mapping[str, object]) -> bool:
    """Return whether the broker's values, by name, are such that `key` counts."""
    return key.only_with is None or str(values[key.only_with[0]]) == key.only_with[1]


def refuse(problems: Sequence[str]) -> None:
    """Raise all problems in one error, if there are any.

    Raises:
        ConfigError: there are.
    """
    if len(problems) == 1:
        raise ConfigError(f"The configuration has a problem: {problems[0]}")
    if problems:
        lines = "".join(f"\n  {problem}" for problem in problems)
        raise ConfigError(f"The configuration has {len(problems)} problems:{lines}")


def _take_layer(layer: Layer, keys: ConfigKeys, found: _Findings) -> None:
    names_here: dict[str, Setting] = {}
    for setting in layer:
        key, name = _find_key(setting, keys)
        if key is None:
            _take_unknown(setting, name, keys, found)
            continue
        if setting.origin.kind is OriginKind.COMMAND_LINE and key.has_secret(setting.text):
            found.problems.append(
                f"{_shown(setting, key)} {SECRET_ARGUMENT}: set it in a file or the environment"
            )
            found.invalid.add(key.name)
            continue
        try:
            value = key.type.parse(setting.text)
        except ValueError as error:
            found.problems.append(f"{_shown(setting, key)}: {error}")
            found.invalid.add(key.name)
            continue
        other = names_here.setdefault(key.name, setting)
        if other is not setting:
            found.problems.append(f"{_shown(setting, key)}: is set twice, also as {other.name}; keep one")
        # Layers come from the strongest to the weakest: the first value stays. Weaker ones are parsed all the
        # same, so that a bad value in a file is reported though it is overridden.
        elif key.name not in found.values:
            found.values[key.name] = value
            found.origins[key.name] = setting.origin
            if key.inert:
                found.warnings.append(f"{name} ({setting.origin}) has no meaning here: {key.inert}.")


def _find_key(setting: Setting, keys: ConfigKeys) -> tuple[ConfigKey[object] | None, str]:
    """Return the key and the name it was set by; for a variable of no key, the name that it seems to mean."""
    if setting.origin.kind is not OriginKind.ENVIRONMENT:
        return keys.find(setting.name, "broker"), setting.name
    found = keys.find_variable(setting.name)
    if found is not None:
        return found
    name = setting.name.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")
    return keys.of_listener(name), name


def _take_unknown(setting: Setting, name: str, keys: ConfigKeys, found: _Findings) -> None:
    if is_sink_setting(name):
        unknown = unknown_setting(name, setting.origin, keys.sink_kinds)
        if not any(other.startswith(unknown.beginning) for other in found.problems):
            found.problems.append(unknown.problem)
        found.meant(unknown.meant)
        return
    judgement = keys.judge(name, setting.text, "broker")
    if judgement is not None:
        messages = found.warnings if judgement.accepted else found.problems
        messages.append(f"{name} ({setting.origin}) {judgement.reason}.")
        return
    topic_key = keys.find(name, "topic")
    if topic_key is not None:
        defaults = " or ".join(default.key.name for default in topic_key.broker_defaults)
        remedy = (
            f"the default of all topics is set by {defaults}"
            if defaults
            else "set it when you create the topic"
        )
        found.problems.append(f"{name} ({setting.origin}) is a key of single topics; {remedy}.")
        return
    if not name:
        found.problems.append(f"{setting.origin}: there is no key before {setting.text!r}; write key=value")
        return
    nearest = keys.nearest(name, "broker")
    found.meant(nearest)
    hint = f"did you mean {nearest}?" if nearest else "`tidelog config` lists all keys."
    found.problems.append(f"{name} ({setting.origin}) is no key; {hint}")


def _out_of_limits(keys: ConfigKeys, found: _Findings) -> Iterator[str]:
    for key in keys.of_scope("broker"):
        low, high = key.within or (None, None)
        limit = keys.find(key.below, "broker") if key.below else None
        if found.invalid.intersection(each.name for each in (key, low, high, limit) if each is not None):
            continue
        value = cast("int", found.values[key.name])
        if low is not None and high is not None:
            least, most = (cast("int", found.values[each.name]) for each in (low, high))
            if not least <= value <= most:
                yield f"{key} = {value} is not between {low} = {least} and {high} = {most}."
        if limit is not None and value >= cast("int", found.values[limit.name]):
            yield f"{key} = {value} has to be less than {limit} = {found.values[limit.name]}."


def _shown(setting: Setting, key: ConfigKey[object]) -> str:
    return f"{setting.name} = {key.shown(setting.text)} ({setting.origin})"


def _set_in_vain(keys: ConfigKeys, found: _Findings) -> list[str]:
    warnings: list[str] = []
    for key in keys.of_scope("broker"):
        if found.origins[key.name] is DEFAULT_ORIGIN or has_effect(key, found.values):
            continue
        name, needed = cast("tuple[str, str]", key.only_with)
        warnings.append(
            f"{key.name} ({found.origins[key.name]}) does nothing: it counts with {name} = {needed}, and "
            f"{name} is {found.values[name]}."
        )
    return warnings
