"""Settings as options: `KEY=VALUE`, repeatable."""

from __future__ import annotations

import click


def key_values(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse `KEY=VALUE` settings into values by key; the `callback` of a repeatable option."""
    values: dict[str, str] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise click.BadParameter(f"{pair!r} is not of the form KEY=VALUE.")
        if name in values:
            raise click.BadParameter(f"{name} is given more than once.")
        values[name] = value
    return values
