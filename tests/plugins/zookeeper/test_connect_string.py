"""`zookeeper.connect`: servers and a chroot."""

from __future__ import annotations

import pytest

from tests.tables import for_each
from tidelog.plugins.zookeeper.connect_string import connect_string, parse_connect_string

GOOD = [
    ("zoo:2182", (("zoo", 2182),), ""),
    ("zoo", (("zoo", 2181),), ""),
    ("a:1,b:2/kafka/main", (("a", 1), ("b", 2)), "/kafka/main"),
    ("[::1]:2181,[fe80::1]/k", (("::1", 2181), ("fe80::1", 2181)), "/k"),
    ("zoo:2181/", (("zoo", 2181),), ""),
]
BAD = [
    ("/kafka", "names no server"),
    ("a:1,,b:2", "has an empty item"),
    ("a:", "has 'a:', which is not host:port"),
    ("a:x", "has 'a:x', which is not host:port"),
    (":2181", "has ':2181', which is not host:port"),
    ("[::1", "has '[::1', which is not host:port"),
    ("[::1]2181", "has '[::1]2181', which is not host:port"),
    ("a:0", "has 'a:0', whose port is not from 1 to 65535"),
    ("a:65536", "has 'a:65536', whose port is not from 1 to 65535"),
    ("a:1/k//l", "has the chroot '/k//l', which is no path in ZooKeeper"),
    ("a:1/k/", "has the chroot '/k/', which is no path in ZooKeeper"),
    ("a:1/../k", "has the chroot '/../k', which is no path in ZooKeeper"),
]


@for_each(("text", "hosts", "chroot"), GOOD)
def test_connect_string_has_hosts_and_a_chroot(
    text: str, hosts: tuple[tuple[str, int], ...], chroot: str
) -> None:
    assert parse_connect_string(text) == (hosts, chroot)
    assert parse_connect_string(str(parse_connect_string(text))) == (hosts, chroot)


@for_each(("text", "reason"), BAD)
def test_connect_string_refuses(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - its whole text is compared
        parse_connect_string(text)
    assert str(refused.value) == reason


def test_connect_string_of_nothing_is_unset() -> None:
    assert connect_string().parse(" ") is None
    assert connect_string().format(None) == ""
