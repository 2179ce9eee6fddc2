"""Keys of tables that a configuration may have any number of: `SECTION.NAME.KEY`, in TOML `[SECTION.NAME]`.

A plugin declares them as keys whose second part is `NAME`, such as `mirrors.NAME.topics`. Each table that is
configured has them as broker keys of full names, so that they come from the same sources, are validated in
the same way and listed with the others.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar, cast

import attrs

from tidelog.kernel.config.key import ConfigKey, environment_variable
from tidelog.kernel.config.sources import DEFAULT_ORIGIN, Origin, OriginKind, Sources
from tidelog.kernel.errors import ConfigError

T = TypeVar("T")

PLACEHOLDER: Final = "NAME"
"""Stands for the name of a table in the name of a key."""
TABLE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_PARTS: Final = 3


class TableName(NamedTuple):
    """A configured table: its section, and its name in it."""

    section: str
    name: str

    def __str__(self) -> str:
        return f"{self.section}.{self.name}"

    def full_key(self, key: ConfigKey[T]) -> ConfigKey[T]:
        """Return the key of this table for one that is declared with the placeholder."""
        needed = key.only_with
        return attrs.evolve(
            key,
            name=f"{self}.{short_name(key)}",
            only_with=needed and (needed[0].replace(PLACEHOLDER, self.name, 1), needed[1]),
        )


def section_of(key: ConfigKey[object]) -> str | None:
    """Return the section of a key of tables, None for any other key."""
    parts = key.name.split(".", _PARTS - 1)
    return parts[0] if len(parts) == _PARTS and parts[1] == PLACEHOLDER else None


def short_name(key: ConfigKey[object]) -> str:
    """Return the name that a key of tables has within a table."""
    return key.name.split(".", _PARTS - 1)[2]


def configured_tables(sources: Sources, sections: Container[str]) -> Sequence[TableName]:
    """Return the tables that files, `--set` and programs name, in the order of their first settings.

    Variables of the environment only add to them: there `_` stands for `.`, `-` and itself.

    Raises:
        ConfigError: two of them differ only in what their variables do not distinguish.
    """
    found: dict[TableName, None] = {}
    for layer in reversed(sources.layers):
        for setting in layer:
            parts = setting.name.split(".", _PARTS - 1)
            is_of_table = parts[0] in sections and len(parts) == _PARTS and TABLE_NAME.fullmatch(parts[1])
            if is_of_table and setting.origin.kind is not OriginKind.ENVIRONMENT:
                found[TableName(parts[0], parts[1])] = None
    by_variable: dict[str, TableName] = {}
    for name in found:
        variable = environment_variable(str(name))
        other = by_variable.setdefault(variable, name)
        if other != name:
            raise ConfigError(
                f"The tables [{other}] and [{name}] would have the same environment variables, "
                f"{variable}_...: rename one of them."
            )
    return tuple(found)


class TableConfig:
    """The configuration of one table: `config[KEY]`, by the keys as they are declared."""

    def __init__(
        self,
        name: TableName,
        keys: Iterable[ConfigKey[object]],
        values: Mapping[str, object],
        origins: Mapping[str, Origin],
    ) -> None:
        """Take values and origins of all broker keys, by full names; `keys` are those of the section."""
        self.name = name.name
        self._keys = tuple(keys)
        self._table = name
        self._values = {key.name: values[name.full_key(key).name] for key in self._keys}
        self._origins = {key.name: origins[name.full_key(key).name] for key in self._keys}

    def __getitem__(self, key: ConfigKey[T]) -> T:
        return cast("T", self._values[key.name])

    def is_set(self, key: ConfigKey[object]) -> bool:
        """Return whether some source sets the key, be it to its default."""
        return self._origins[key.name] is not DEFAULT_ORIGIN

    def problems(self, invalid: Container[str]) -> Iterator[str]:
        """Yield what is missing; the keys in `invalid`, by full names, were set to no value of theirs."""
        for key in self._keys:
            if key.required and not self.is_set(key) and self._table.full_key(key).name not in invalid:
                yield f"[{self._table}] needs {short_name(key)}: {key.documentation}"
