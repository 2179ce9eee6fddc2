"""Reading every source of settings into layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tidelog.kernel.config.key import ENVIRONMENT_PREFIX
from tidelog.kernel.config.sources.settings import Layer, Origin, OriginKind, Setting, Sources, flatten
from tidelog.kernel.errors import ConfigError

NOT_SETTINGS = frozenset({"TIDELOG_CONFIG", "TIDELOG_DEBUG", "TIDELOG_PURE"})
"""Variables that the command line reads itself."""

MAX_FILE_BYTES = 1 << 20
"""A configuration file is far smaller; anything larger was named by mistake."""


def read_sources(
    file: Path | None = None, environment: Mapping[str, str] | None = None, assignments: Iterable[str] = ()
) -> Sources:
    """Read a file, the environment and `key=value` assignments, the last the strongest.

    A file whose name ends in `.properties` is read as Kafka's own kind of file, every other one as TOML. Of
    two assignments to one key the later counts.

    Raises:
        ConfigError: the file cannot be read or is not well formed.
    """
    layers: list[Layer] = []
    problems: list[str] = []
    if assignments:
        layers.append(_from_assignments(assignments, problems))
    if environment:
        layers.append(_from_environment(environment))
    if file is not None:
        layers.append(_from_file(file, problems))
    return Sources(tuple(layers), tuple(problems))


def settings_from_mapping(values: Mapping[str, object]) -> Layer:
    """Return the settings given by a program; nested mappings stand for dotted names.

    Raises:
        ConfigError: a value is of a type that no setting has.
    """
    settings: list[Setting] = []
    problems: list[str] = []
    flatten(values, lambda _: Origin(OriginKind.CODE), settings, problems)
    if problems:
        raise ConfigError("\n".join(problems))
    return tuple(settings)


def _from_assignments(assignments: Iterable[str], problems: list[str]) -> Layer:
    settings: dict[str, Setting] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if name and equals:
            settings[name] = Setting(name, text, Origin(OriginKind.COMMAND_LINE))
        else:
            problems.append(f"{assignment} (--set): is not of the form key=value")
    return tuple(settings.values())


def _from_environment(environment: Mapping[str, str]) -> Layer:
    return tuple(
        Setting(variable, text, Origin(OriginKind.ENVIRONMENT, variable))
        for variable, text in environment.items()
        if variable.startswith(ENVIRONMENT_PREFIX) and variable not in NOT_SETTINGS
    )


def _from_file(file: Path, problems: list[str]) -> Layer:
    text = _read_text(file)
    if file.suffix == ".properties":
        from tidelog.kernel.config.sources.properties_file import read_properties

        return tuple(read_properties(text, str(file), problems))
    from tidelog.kernel.config.sources.toml_file import read_toml

    return tuple(read_toml(text, str(file), problems))


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(
                f"The configuration file {file} is larger than {MAX_FILE_BYTES} bytes: is it the right one?"
            )
        return content.decode()
    except OSError as error:
        raise ConfigError(f"The configuration file {file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration file {file} is not text in UTF-8.") from None
