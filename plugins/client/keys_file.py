"""Properties files with keys of Kafka's clients, as commands take them by `--command-config`."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

from tidelog.kernel.config.sources.properties_file import read_properties
from tidelog.plugins.client.security_keys import is_security_key


def read_keys_file(path: Path, others: Container[str] = ()) -> dict[str, str]:
    """Return the keys of a file, all of which are about the security of connections or in `others`.

    Raises:
        ValueError: the file cannot be read, or has another key; the text names it, and no value.
    """
    problems: list[str] = []
    try:
        found = read_properties(path.read_text(encoding="utf-8"), str(path), problems)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    values = {setting.name: setting.text.strip() for setting in found}
    problems += [
        f"{name}: commands have no part for it"
        for name in values
        if name not in others and not is_security_key(name)
    ]
    if problems:
        raise ValueError(f"{path}: {problems[0]}")
    return values
