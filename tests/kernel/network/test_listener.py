"""Listening sockets: where they are bound, and a clear word where they cannot be."""

from __future__ import annotations

import socket

import pytest

from tests.deadlines import DEADLINE_S
from tidelog.kernel.config import Config
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.network.listener import BoundListener


def bound(listeners: str, **settings: object) -> BoundListener:
    """The first of these listeners, bound."""
    values = {"listeners": listeners, **{key.replace("_", "."): value for key, value in settings.items()}}
    config = Config.from_mapping(values)
    return BoundListener(config.served_listeners()[0], config)


async def test_bound_listener_with_port_0_gets_a_free_port() -> None:
    first, second = bound("PLAINTEXT://127.0.0.1:0"), bound("PLAINTEXT://127.0.0.1:0")
    assert first.host == second.host == "127.0.0.1"
    assert 0 < first.port != second.port > 0
    first.close()
    second.close()


async def test_bound_listener_refuses_a_port_in_use_and_suggests_another() -> None:
    first = bound("PLAINTEXT://127.0.0.1:0")
    with pytest.raises(
        ConfigError, match=rf"listener PLAINTEXT cannot use 127\.0\.0\.1:{first.port}: .*another port"
    ):
        bound(f"PLAINTEXT://127.0.0.1:{first.port}")
    first.close()


async def test_close_of_a_bound_listener_frees_its_port() -> None:
    first = bound("PLAINTEXT://127.0.0.1:0")
    first.close()
    again = bound(f"PLAINTEXT://127.0.0.1:{first.port}")
    again.close()


async def test_bound_listener_refuses_an_unknown_host() -> None:
    with pytest.raises(ConfigError, match=r"listener PLAINTEXT: host 'no-such-host\.invalid' is unknown"):
        bound("PLAINTEXT://no-such-host.invalid:0")


async def test_bound_listener_refuses_an_address_of_another_machine() -> None:
    with pytest.raises(ConfigError, match=r"listener PLAINTEXT cannot use 192\.0\.2\.1:"):
        bound("PLAINTEXT://192.0.2.1:0")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
async def test_an_empty_host_is_every_address() -> None:
    everywhere = bound("PLAINTEXT://:0")
    for address in ("127.0.0.1", "::1"):
        with socket.create_connection((address, everywhere.port), timeout=DEADLINE_S):
            pass
    everywhere.close()


async def test_bound_listener_sets_the_configured_socket_buffer_bytes() -> None:
    """The system doubles what it is asked for, to have room for its own books."""
    small = bound(
        "PLAINTEXT://127.0.0.1:0", socket_send_buffer_bytes=20_000, socket_receive_buffer_bytes=30_000
    )
    sock = small._socket  # pyright: ignore[reportPrivateUsage]
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 40_000
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 60_000
    small.close()


async def test_bound_listener_leaves_the_receive_buffer_to_the_system_as_shipped() -> None:
    """It adapts that of a socket for which it was not set."""
    as_shipped = bound("PLAINTEXT://127.0.0.1:0")
    sock = as_shipped._socket  # pyright: ignore[reportPrivateUsage]
    with socket.socket() as other:
        expected = other.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == expected
    as_shipped.close()


async def test_bound_listener_bounds_the_send_buffer_as_shipped() -> None:
    """The system would let it grow to megabytes; accepted sockets have that of the listener."""
    as_shipped = bound("PLAINTEXT://127.0.0.1:0")
    with socket.create_connection((as_shipped.host, as_shipped.port)), socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 262_144)  # the system may have a lower limit
        accepted, _ = as_shipped._socket.accept()  # pyright: ignore[reportPrivateUsage]
        with accepted:
            expected = other.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == expected
    as_shipped.close()


async def test_bound_listener_enables_keepalive_on_accepted_sockets() -> None:
    listening = bound("PLAINTEXT://127.0.0.1:0")
    with socket.create_connection((listening.host, listening.port)):
        accepted, _ = listening._socket.accept()  # pyright: ignore[reportPrivateUsage]
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    listening.close()
