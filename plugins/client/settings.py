"""Settings of a client: bootstrap servers, client id, timeouts, limits and retries."""

from __future__ import annotations

import math
import random
import re
from typing import TYPE_CHECKING, Final

import attrs

from tidelog.plugins.client.cluster import Address
from tidelog.plugins.client.connection import DEFAULT_MAX_RESPONSE_BYTES
from tidelog.plugins.client.errors import InvalidAddress
from tidelog.plugins.client.requests import SOFTWARE_NAME
from tidelog.plugins.client.security import SecuritySettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Not the generator of the process: a program that has a broker or a client may have seeded that one.
_random = random.SystemRandom()
_ADDRESS: Final = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.%]+)\]|(?P<host>[^\s:/\[\]]+)):(?P<port>[0-9]{1,5})")
_PLAINTEXT: Final = "PLAINTEXT://"
_HIGHEST_PORT: Final = 65535
_MOST_DOUBLINGS: Final = 62
"""Of the first pause: a policy may have any number of retries, and a float has an end."""


@attrs.frozen
class RetryPolicy:
    """Number of retries and the exponential backoff between them, up to a limit and with jitter.

    The defaults are Kafka's `retry.backoff.ms` and `retry.backoff.max.ms`; all pauses together take about 6
    s. A topic or partition that a broker does not know may be a new one whose metadata are on their way: the
    pauses for that alone take `missing_topic_s` in all.
    """

    retries: int = 10
    backoff_s: float = 0.1
    max_backoff_s: float = 1.0
    jitter: float = 0.2
    missing_topic_s: float = math.inf

    def pauses(self) -> Iterator[float]:
        """Iterate over the pauses in seconds, one for each retry."""
        return map(self.pause_s, range(self.retries))

    def pause_s(self, attempt: int) -> float:
        """Return the pause in seconds after an attempt, the first of which is number 0."""
        pause = min(self.backoff_s * 2.0 ** min(attempt, _MOST_DOUBLINGS), self.max_backoff_s)
        return pause * _random.uniform(1 - self.jitter, 1 + self.jitter)


@attrs.frozen
class ClientSettings:
    """Settings of a client.

    Attributes:
        client_id: the client id of requests, which brokers log
        request_timeout_s: for one response, `request.timeout.ms` of Kafka's clients
        operation_timeout_s: for an operation with all of its retries, their `default.api.timeout.ms`
        connect_timeout_s: for one address, with its ApiVersions (`socket.connection.setup.timeout.ms`)
        max_block_s: how long a producer waits for a topic that brokers may create, `max.block.ms` of theirs
        max_response_bytes: a longer response closes its connection
        retry: how often and when an operation is retried
        security: the security protocol, and what TLS needs
    """

    client_id: str = SOFTWARE_NAME
    request_timeout_s: float = 30.0
    operation_timeout_s: float = 60.0
    connect_timeout_s: float = 10.0
    max_block_s: float = 60.0
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    retry: RetryPolicy = RetryPolicy()
    security: SecuritySettings = attrs.field(factory=SecuritySettings)


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
