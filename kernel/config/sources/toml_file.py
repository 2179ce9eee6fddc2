"""Settings in TOML: a dotted key, a quoted key and a key in a [table] all name the same setting."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidelog.kernel.config.sources.settings import Origin, OriginKind, Setting, flatten
from tidelog.kernel.errors import ConfigError

_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_KEY = rf"{_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART})*"
_STATEMENT = re.compile(rf"^[ \t]*(?:\[[ \t]*(?P<table>{_KEY})[ \t]*\]|(?P<key>{_KEY})[ \t]*=)")


def read_toml(text: str, file: str, problems: list[str]) -> list[Setting]:
    """Return the settings in `text`; values that cannot be settings go to `problems`.

    Raises:
        ConfigError: it is not well formed; says how to write a key that begins with another key.
    """
    # Not at the top: a broker that is configured by its command line alone never needs it.
    import tomllib

    lines = dict(reversed(list(_key_lines(text))))
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_explain(file, error, lines)) from None
    settings: list[Setting] = []
    flatten(values, lambda name: _origin(file, lines.get(name)), settings, problems)
    return settings


def _origin(file: str, line: int | None) -> Origin:
    return Origin(OriginKind.FILE, file if line is None else f"{file}:{line}")


def _key_lines(text: str) -> Iterator[tuple[str, int]]:
    """Flat names and the lines where they seem to stand: tomllib does not tell, and a hint is enough."""
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        statement = _STATEMENT.match(line)
        if statement is None:
            continue
        if statement["table"] is not None:
            table = _flat(statement["table"]) + "."
        else:
            yield table + _flat(statement["key"]), number


def _flat(key: str) -> str:
    return ".".join(part.strip("\"'") for part in re.findall(_KEY_PART, key))


def _explain(file: str, error: Exception, lines: dict[str, int]) -> str:
    """TOML reads `a.b = 1` as a table `a`, so `a` cannot have a value too; Kafka has such pairs of names."""
    for shorter, line in lines.items():
        for longer, other_line in lines.items():
            if longer.startswith(shorter + "."):
                return (
                    f"{file}: {shorter} (line {line}) and {longer} (line {other_line}) cannot both stand "
                    "here as they are, because TOML takes the dots of a name for nested tables. Put the "
                    "longer name "
                    f'in quotes, above the first [table]: "{longer}" = ...'
                )
    hint = "a file in Kafka's format has a name that ends in .properties"
    return f"{file} is not well-formed TOML: {error}; {hint}"
