"""`zookeeper.connect`: the servers of an ensemble, and the path under which everything is."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.kernel.config.listeners import MAX_PORT, format_address
from tidelog.kernel.config.types import ValueType, split_list

DEFAULT_PORT: Final = 2181


class ConnectString(NamedTuple):
    """Hosts with ports, and the chroot: empty, or an absolute path without a slash at its end."""

    hosts: tuple[tuple[str, int], ...]
    chroot: str = ""

    @property
    def servers(self) -> str:
        """`host:port` of each server, between commas."""
        return ",".join(format_address(host, port) for host, port in self.hosts)

    def __str__(self) -> str:
        return self.servers + self.chroot

    def full_path(self, path: str) -> str:
        """Return the path in ZooKeeper of one below the chroot, as users of other tools name it."""
        return self.chroot + path


def parse_connect_string(text: str) -> ConnectString:
    """Parse `host:port,host:port/chroot`; a port may be missing, an IPv6 host is in brackets.

    Raises:
        ValueError: the text is not of that form; says which part.
    """
    servers, slash, chroot = text.strip().partition("/")
    hosts = tuple(_parse_host(each) for each in split_list(servers))
    if not hosts:
        raise ValueError("names no server")
    if not chroot:
        return ConnectString(hosts)
    if any(part in ("", ".", "..") for part in chroot.split("/")):
        raise ValueError(f"has the chroot {slash + chroot!r}, which is no path in ZooKeeper")
    return ConnectString(hosts, slash + chroot)


def connect_string() -> ValueType[ConnectString | None]:
    """Return the type of `zookeeper.connect`; empty text means None."""

    def parse(text: str) -> ConnectString | None:
        return parse_connect_string(text) if text.strip() else None

    def format_value(value: ConnectString | None) -> str:
        return "" if value is None else str(value)

    allowed = "`host:port` between commas, then a path if not everything is at the root; empty: none"
    return ValueType("string", allowed, parse, format_value)


def _parse_host(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        colon, port = rest[:1], rest[1:]
        well_formed = bool(bracket) and colon in ("", ":")
    else:
        host, colon, port = text.partition(":")
        well_formed = True
    if not well_formed or not host or (colon and not port.isdecimal()):
        raise ValueError(f"has {text!r}, which is not host:port")
    number = int(port) if port else DEFAULT_PORT
    if not 0 < number <= MAX_PORT:
        raise ValueError(f"has {text!r}, whose port is not from 1 to {MAX_PORT}")
    return host, number
