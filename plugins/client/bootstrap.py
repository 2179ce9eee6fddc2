"""Bootstrap servers: the addresses that a client connects to first, as a user writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tidelog.plugins.client.addresses import Address
from tidelog.plugins.client.errors import InvalidAddress

if TYPE_CHECKING:
    from collections.abc import Iterable

_ADDRESS: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_PLAINTEXT: Final = "PLAINTEXT://"
_HIGHEST_PORT: Final = 65535


def parse_addresses(bootstrap: str | Iterable[str]) -> tuple[Address, ...]:
    """Parse bootstrap servers: `host:port` or `[ipv6]:port`, several separated by commas or as a sequence.

    A listener as the broker prints it (`PLAINTEXT://host:port`) is accepted too.

    Raises:
        InvalidAddress: an address has another form, or there is none.
    """
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    addresses = tuple(dict.fromkeys(_parse(text.strip()) for text in texts if text.strip()))
    if not addresses:
        raise InvalidAddress("no broker address is given; it has the form host:port, such as 127.0.0.1:9092")
    return addresses


def _parse(text: str) -> Address:
    found = _ADDRESS.fullmatch(text.removeprefix(_PLAINTEXT))
    if found is None or not 0 < int(found["port"]) <= _HIGHEST_PORT:
        raise InvalidAddress(
            f"{text!r} is no broker address: it has the form host:port, such as 127.0.0.1:9092"
        )
    return Address(found["ipv6"] or found["host"], int(found["port"]))
