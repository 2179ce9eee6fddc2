"""Checks between several keys: what contradicts itself, and what has no effect because of another key."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from tidelog.kernel.config import keys
from tidelog.kernel.config.key import ConfigKey
from tidelog.kernel.config.listeners import Listener
from tidelog.kernel.config.types import T


def problems(values: Mapping[str, object], invalid: Container[str] = ()) -> list[str]:
    """Return the contradictions between broker keys; each of `values` is valid by itself.

    A check of a key in `invalid`, which has its default instead of what was set, is left out.
    """
    return [
        problem
        for keys_of_check, check in _CHECKS
        if not any(key.name in invalid for key in keys_of_check)
        for problem in check(values)
    ]


def _no_listener_for_clients(values: Mapping[str, object]) -> Iterator[str]:
    if not served_listeners(values):
        yield "listeners: all of them are in controller.listener.names, so none is left for clients."


def _unknown_advertised_listeners(values: Mapping[str, object]) -> Iterator[str]:
    names = {listener.name for listener in _value(values, keys.LISTENERS)}
    for advertised in _value(values, keys.ADVERTISED_LISTENERS) or ():
        if advertised.name not in names:
            yield f"advertised.listeners: {advertised} has a name that is not in listeners."


def _codecs_of_unknown_listeners(values: Mapping[str, object]) -> Iterator[str]:
    names = {listener.name for listener in _value(values, keys.LISTENERS)}
    for name in _value(values, keys.LISTENER_CODEC_MAP):
        if name not in names:
            yield f"listener.codec.map: {name} is not in listeners."


def _no_connections(values: Mapping[str, object]) -> Iterator[str]:
    if not _value(values, keys.MAX_CONNECTIONS_PER_IP) and not _value(
        values, keys.MAX_CONNECTIONS_PER_IP_OVERRIDES
    ):
        yield "max.connections.per.ip: may be 0 only if max.connections.per.ip.overrides is set."


def _requests_above_their_memory(values: Mapping[str, object]) -> Iterator[str]:
    memory_bytes = _value(values, keys.QUEUED_MAX_REQUEST_BYTES)
    # The key of a wire protocol, which may be without it.
    largest = values.get("socket.request.max.bytes")
    if isinstance(largest, int) and 0 < memory_bytes < largest:
        yield f"queued.max.request.bytes: has to be at least socket.request.max.bytes = {largest}."


_CHECKS: tuple[tuple[tuple[ConfigKey[Any], ...], Callable[[Mapping[str, object]], Iterator[str]]], ...] = (
    ((keys.LISTENERS, keys.CONTROLLER_LISTENER_NAMES), _no_listener_for_clients),
    ((keys.LISTENERS, keys.ADVERTISED_LISTENERS), _unknown_advertised_listeners),
    ((keys.LISTENERS, keys.LISTENER_CODEC_MAP), _codecs_of_unknown_listeners),
    ((keys.QUEUED_MAX_REQUEST_BYTES,), _requests_above_their_memory),
    ((keys.MAX_CONNECTIONS_PER_IP, keys.MAX_CONNECTIONS_PER_IP_OVERRIDES), _no_connections),
)
"""The checks, each with the keys that it reads."""


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


def security_protocol(values: Mapping[str, object], listener: Listener) -> str:
    """Return the name of the security protocol of a listener."""
    protocols = _value(values, keys.LISTENER_SECURITY_PROTOCOL_MAP)
    return protocols.get(
        listener.name, listener.name if listener.name in keys.SECURITY_PROTOCOLS else "PLAINTEXT"
    )


def _value(values: Mapping[str, object], key: ConfigKey[T]) -> T:
    return values[key.name]  # type: ignore[return-value]
