"""Changes of configuration keys, as options of commands give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from tidelog.plugins.client import ConfigChange


def config_changes(
    settings: Mapping[str, str],
    deleted: Iterable[str],
    appended: Mapping[str, str],
    subtracted: Mapping[str, str],
) -> list[ConfigChange]:
    """Return the changes.

    Raises:
        UsageError: a key is named twice.
    """
    changes = [
        *(ConfigChange(key, value) for key, value in settings.items()),
        *(ConfigChange(key, operation="delete") for key in deleted),
        *(ConfigChange(key, value, "append") for key, value in appended.items()),
        *(ConfigChange(key, value, "subtract") for key, value in subtracted.items()),
    ]
    seen: set[str] = set()
    for change in changes:
        if change.name in seen:
            raise click.UsageError(f"{change.name} is to be changed in two ways at once.")
        seen.add(change.name)
    return changes
