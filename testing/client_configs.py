"""How clients of other makers find the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DOTTED: Final = ("confluent", "java")
_UNDERSCORED: Final = ("aiokafka", "kafka-python", "tidelog")


def client_config(client: str, bootstrap: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a client of that kind for a broker, with further options.

    Raises:
        ValueError: there is no such kind.
    """
    if client in _DOTTED:
        return {"bootstrap.servers": bootstrap} | {
            name.replace("_", "."): value for name, value in options.items()
        }
    if client in _UNDERSCORED:
        return {"bootstrap_servers": bootstrap, **options}
    raise ValueError(f"there is no client {client!r}: {', '.join(sorted((*_DOTTED, *_UNDERSCORED)))}")
