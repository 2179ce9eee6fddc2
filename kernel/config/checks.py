"""Checks between several keys: what contradicts itself, and what has no effect because of another key."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.kernel.config import keys
from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.listeners import Listener
from tidelog.kernel.config.types import T

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def problems(values: Mapping[str, object]) -> list[str]:
    """Return the contradictions between broker keys; each of `values` is valid by itself."""
    served = served_listeners(values)
    if not served:
        return ["listeners: all of them are in controller.listener.names, so none is left for clients."]
    found: list[str] = []
    for listener in served:
        protocol = _protocol(values, listener)
        if protocol not in SECURITY_PROTOCOLS:
            found.append(
                f"listener.security.protocol.map: gives the listener {listener.name} the protocol "
                f"{protocol}, which is none of {', '.join(SECURITY_PROTOCOLS)}."
            )
        elif protocol != "PLAINTEXT":
            found.append(
                f"listeners: {listener} needs {protocol}, which this broker has no part for; use PLAINTEXT."
            )
    names = {listener.name for listener in _value(values, keys.LISTENERS)}
    for advertised in _value(values, keys.ADVERTISED_LISTENERS) or ():
        if advertised.name not in names:
            found.append(f"advertised.listeners: {advertised} has a name that is not in listeners.")
    for name in _value(values, keys.LISTENER_CODEC_MAP):
        if name not in names:
            found.append(f"listener.codec.map: {name} is not in listeners.")
    return found


def warnings(values: Mapping[str, object]) -> list[str]:
    """Return warnings of settings that have no effect because of others."""
    served = served_listeners(values)
    return [
        f"listeners: {listener} is not opened, since controller.listener.names reserves it for Kafka's "
        "controllers and a single broker needs none."
        for listener in _value(values, keys.LISTENERS)
        if listener not in served
    ]


def served_listeners(values: Mapping[str, object]) -> tuple[Listener, ...]:
    """Return the listeners that are opened."""
    reserved = _value(values, keys.CONTROLLER_LISTENER_NAMES)
    return tuple(listener for listener in _value(values, keys.LISTENERS) if listener.name not in reserved)


def _protocol(values: Mapping[str, object], listener: Listener) -> str:
    protocols = _value(values, keys.LISTENER_SECURITY_PROTOCOL_MAP)
    return protocols.get(listener.name, listener.name if listener.name in SECURITY_PROTOCOLS else "PLAINTEXT")


def _value(values: Mapping[str, object], key: ConfigKey[T]) -> T:
    return values[key.name]  # type: ignore[return-value]
