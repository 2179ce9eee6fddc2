"""Listeners: `NAME://host:port` as Kafka writes them in `listeners` and `advertised.listeners`."""

from __future__ import annotations

import attrs

from tidelog.kernel.config.types import ValueType, split_list

MAX_PORT = 65535


@attrs.frozen
class Listener:
    """An address to listen at, or to advertise to clients; an empty host means all interfaces.

    Port 0 lets the system pick a free one. An IPv6 host is kept without its brackets.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"

    @property
    def address(self) -> str:
        """`host:port`, with brackets around an IPv6 host."""
        return format_address(self.host, self.port)


@attrs.frozen
class ServedListener(Listener):
    """A listener that the broker opens: security protocol and codec of its connections, address to advertise.

    Without `advertised` the bound address is advertised. The port 0 in it stands for the bound port.
    """

    security_protocol: str
    codec: str
    advertised: Listener | None


def format_address(host: str, port: int) -> str:
    """Return `host:port`, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_listeners(text: str) -> tuple[Listener, ...]:
    """Parse the listeners between the commas of `text`, each name once and each fixed port once.

    One port may be used twice if one host is IPv4 and the other IPv6, as in Kafka.

    Raises:
        ValueError: a part of the text is no listener, or two of them clash.
    """
    listeners = _parse_each(text)
    for index, listener in enumerate(listeners):
        for other in listeners[:index]:
            same_port = listener.port != 0 and listener.port == other.port
            if same_port and not _different_families(listener.host, other.host):
                raise ValueError(f"uses the port {listener.port} twice ({other} and {listener})")
    return listeners


def parse_advertised_listeners(text: str) -> tuple[Listener, ...]:
    """Parse the addresses to advertise; several may share a port, and port 0 stands for the bound one.

    Raises:
        ValueError: a part of the text is no listener, has no host that clients can reach, or a name comes
            twice.
    """
    listeners = _parse_each(text)
    for listener in listeners:
        if listener.host in ("", "0.0.0.0", "::"):  # noqa: S104 - refused here, not bound
            raise ValueError(f"has {str(listener)!r}, whose host is not one that clients can connect to")
    return listeners


def _parse_each(text: str) -> tuple[Listener, ...]:
    listeners = tuple(_parse_listener(part) for part in split_list(text))
    if not listeners:
        raise ValueError("names no listener")
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"names the listener {name} twice")
    return listeners


def _parse_listener(text: str) -> Listener:
    name, separator, address = text.partition("://")
    name = name.strip().upper()
    if not separator or not name.replace("_", "").replace("-", "").isalnum():
        raise ValueError(f"has {text!r}, which is not of the form NAME://host:port")
    if address.startswith("["):
        host, bracket, rest = address[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        well_formed = bracket == "]" and colon == ":" and ":" in host
    else:
        host, colon, port = address.rpartition(":")
        well_formed = colon == ":" and ":" not in host
    if not well_formed:
        raise ValueError(
            f"has {text!r}, which is not of the form NAME://host:port (an IPv6 host in brackets)"
        )
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise ValueError(f"has {text!r}, whose port is not a number from 0 to {MAX_PORT}")
    if any(character.isspace() or character == "/" for character in host):
        raise ValueError(f"has {text!r}, whose host is not a name or an address")
    return Listener(name, host, int(port))


def _different_families(one: str, other: str) -> bool:
    return (":" in one) != (":" in other) and bool(one and other)


def listeners() -> ValueType[tuple[Listener, ...]]:
    """Return the type of the key `listeners`."""
    return ValueType(
        "list",
        "NAME://host:port between commas, each name and each port once",
        parse_listeners,
        _format_listeners,
    )


def advertised_listeners() -> ValueType[tuple[Listener, ...]]:
    """Return the type of the key `advertised.listeners`."""
    return ValueType(
        "list",
        "NAME://host:port between commas, each name once, no host like 0.0.0.0",
        parse_advertised_listeners,
        _format_listeners,
    )


def listener_names() -> ValueType[tuple[str, ...]]:
    """Return the type of lists of listener names, which are converted to upper case."""
    return ValueType("list", "not empty", _parse_listener_names, ",".join)


def _parse_listener_names(text: str) -> tuple[str, ...]:
    names = split_list(text.upper())
    if not names:
        raise ValueError("is empty")
    return names


def _format_listeners(listeners: tuple[Listener, ...]) -> str:
    return ",".join(str(listener) for listener in listeners)
