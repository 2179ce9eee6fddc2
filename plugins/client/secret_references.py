"""References to secrets in values of Kafka's client keys: `${env:NAME}`, `${file:PATH:KEY}` (KIP-297).

As in Kafka they are replaced if `config.providers` names the provider and `config.providers.NAME.class` its
class. A reference is safe to show: the secret is in a file or in the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

PROVIDERS: Final = "config.providers"
_REFERENCE: Final = re.compile(r"\$\{([^:}]+):(?:([^}]*):)?([^}]*)\}")
_MOST_BYTES: Final = 1024 * 1024

Reading = Callable[[str, str], str | None]
"""Returns the value of a path and a key, None if there is none."""


class BadReference(ValueError):
    """A reference cannot be replaced; the text names it, never a value."""


def is_provider_key(name: str) -> bool:
    """Return whether a key is about references."""
    return name == PROVIDERS or name.startswith(f"{PROVIDERS}.")


def resolve_references(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values with their references replaced, without the keys of the providers.

    Raises:
        BadReference: a provider is unknown, or a value is missing.
    """
    providers = _providers(values)

    def replaced(name: str, found: re.Match[str]) -> str:
        provider = providers.get(found[1])
        if provider is None:
            return found[0]  # as in Kafka: what no provider is named for is left as it is
        value = provider(found[2] or "", found[3])
        if value is None:
            raise BadReference(f"{name}: {found[0]} has no value")
        return value

    return {
        name: _REFERENCE.sub(lambda found, name=name: replaced(name, found), text)  # type: ignore[misc]
        for name, text in values.items()
        if not is_provider_key(name)
    }


def _providers(values: Mapping[str, str]) -> dict[str, Reading]:
    found: dict[str, Reading] = {}
    for name in filter(None, map(str.strip, values.get(PROVIDERS, "").split(","))):
        key = f"{PROVIDERS}.{name}.class"
        chosen = values.get(key, "").rpartition(".")[2]
        if chosen not in _CLASSES:
            raise BadReference(f"{key} is not set to one of {', '.join(_CLASSES)}")
        found[name] = _CLASSES[chosen]
    parameter = next(
        (name for name in values if name.startswith(f"{PROVIDERS}.") and ".param." in name), None
    )
    if parameter is not None:
        raise BadReference(f"{parameter}: providers have no parameters here")
    return found


def _of_environment(_path: str, key: str) -> str | None:
    return os.environ.get(key)


def _of_properties(path: str, key: str) -> str | None:
    # Not at the top: with it comes the configuration of brokers.
    from tidelog.kernel.config.sources.properties_file import read_properties

    return next((each.text for each in read_properties(_content(path), path, []) if each.name == key), None)


def _of_directory(path: str, key: str) -> str | None:
    return _content(str(Path(path) / key)) if key and Path(key).name == key else None


def _content(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            content = file.read(_MOST_BYTES + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise BadReference(f"{path} cannot be read: {reason}") from None
    if len(content) > _MOST_BYTES:
        raise BadReference(f"{path} has more than {_MOST_BYTES} characters")
    return content


_CLASSES: Final[Mapping[str, Reading]] = {
    "EnvVarConfigProvider": _of_environment,
    "FileConfigProvider": _of_properties,
    "DirectoryConfigProvider": _of_directory,
}
