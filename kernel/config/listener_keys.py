"""Keys of single listeners: `listener.name.LISTENER.KEY`, with the listener's name in lower case.

Some are also set for a SASL mechanism of a listener, `listener.name.LISTENER.MECHANISM.KEY`.

They are no keys of their own in the registry: any listener's are found by their names, and those that are set
are described with the others. Without a value a listener has no limit but that of the broker (KIP-612), and
of other keys the value that is set for all listeners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.keys import MAX_CONNECTION_CREATION_RATE, MAX_CONNECTIONS
from tidelog.kernel.config.types import nearest_name

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


_LIMITS: Final = {key.name: key for key in _PER_LISTENER}


def name_for_listener(key: ConfigKey[object], listener: str) -> str:
    """Return the name under which `key` is set for one listener."""
    return f"{PREFIX}{listener.lower()}.{key.name}"


def name_for_mechanism(key: ConfigKey[object], listener: str, mechanism: str) -> str:
    """Return the name under which `key` is set for a SASL mechanism of one listener."""
    return f"{PREFIX}{listener.lower()}.{mechanism.lower()}.{key.name}"


def listener_key(name: str, broker_keys: Mapping[str, ConfigKey[object]]) -> ConfigKey[object] | None:
    """Return the key of a listener that has this name, None if there is no such key."""
    listener, _, rest = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not listener or listener != listener.lower():
        return None
    if rest in _LIMITS:
        return attrs.evolve(_LIMITS[rest], name=name)
    key = broker_keys.get(rest) or _of_mechanism(rest, broker_keys)
    if key is None or not key.per_listener:
        return None
    is_dynamic = key.per_listener == "dynamic"
    return attrs.evolve(key, name=name, dynamic=is_dynamic, one_broker=is_dynamic)


def _of_mechanism(name: str, broker_keys: Mapping[str, ConfigKey[object]]) -> ConfigKey[object] | None:
    """Return the key that `MECHANISM.KEY` sets for a SASL mechanism, in lower case."""
    mechanism, _, rest = name.partition(".")
    key = broker_keys.get(rest)
    return key if key is not None and key.per_mechanism and mechanism == mechanism.lower() else None


def nearest_listener_key(name: str, broker_keys: Mapping[str, ConfigKey[object]]) -> str | None:
    """Return the key of a listener that a misspelt name most likely means, None for any other name.

    The name of one of `broker_keys` behind the listener's, or without one, is no mistake in writing: that
    key is for all listeners.
    """
    after_prefix = name.removeprefix(PREFIX)
    listener, _, rest = after_prefix.partition(".")
    of_listeners = [*_LIMITS, *(key.name for key in broker_keys.values() if key.per_listener)]
    if not name.startswith(PREFIX) or not listener or after_prefix in broker_keys:
        return None
    if rest in broker_keys and rest not in of_listeners:
        return None
    near = nearest_name(rest, of_listeners)
    return f"{PREFIX}{listener.lower()}.{near}" if near else None
