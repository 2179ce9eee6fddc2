"""Keys of single listeners: `listener.name.LISTENER.KEY`, with the listener's name in lower case (KIP-612).

They are no keys of their own in the registry: any listener's are found by their names, and those that are set
are described with the others. Without a value a listener has no limit but that of the broker.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import attrs

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.keys import MAX_CONNECTION_CREATION_RATE, MAX_CONNECTIONS

PREFIX: Final = "listener.name."
_PER_LISTENER: Final[tuple[ConfigKey[int], ...]] = (
    attrs.evolve(
        MAX_CONNECTIONS,
        documentation="The largest number of open connections of this listener; further ones wait until one "
        "ends.",
    ),
    attrs.evolve(
        MAX_CONNECTION_CREATION_RATE,
        documentation="The largest number of connections of this listener created per second; above it the "
        "listener pauses for up to a second before it serves the next one.",
    ),
)


def name_for_listener(key: ConfigKey[int], listener: str) -> str:
    """Return the name under which `key` is set for one listener."""
    return f"{PREFIX}{listener.lower()}.{key.name}"


@cache
def listener_key(name: str) -> ConfigKey[int] | None:
    """Return the key of a listener that has this name, None if there is no such key."""
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not listener or listener != listener.lower():
        return None
    for key in _PER_LISTENER:
        if rest == key.name:
            return attrs.evolve(key, name=name)
    return None
