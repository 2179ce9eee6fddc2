"""What tidelog is compared with: a release of Apache Kafka, or another tidelog."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.peers import NEWEST_KAFKA, PeerUnavailableError, find_kafka

from .brokers import BaselineKind, KafkaKind, python_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .brokers import BrokerKind

PURE = "pure"
_VERSION = re.compile(r"\d+(\.\d+)+")


class NoSuchPeerError(Exception):
    """What was asked for is no peer; the message says what is."""


def find_peer(name: str) -> BrokerKind:
    """Return the peer that `name` stands for: a version of Apache Kafka, `pure`, or a checkout's folder.

    Raises NoSuchPeerError when there is none.
    """
    if name == PURE:
        return baseline(pure=True)
    if _VERSION.fullmatch(name):
        try:
            return KafkaKind(find_kafka(name))
        except PeerUnavailableError as error:
            raise NoSuchPeerError(
                f"{error}. Is {name} a release of Apache Kafka? {NEWEST_KAFKA} is the newest that is tested"
            ) from error
    if Path(name).is_dir():
        return baseline(checkout=Path(name))
    raise NoSuchPeerError(
        f"{name!r} is no peer: name a release of Apache Kafka such as {NEWEST_KAFKA}, `{PURE}` for tidelog"
        " without compiled modules, or the folder of another checkout of tidelog"
    )


def baseline(
    settings: Mapping[str, str] | None = None, checkout: Path | None = None, *, pure: bool = False
) -> BaselineKind:
    """Return another tidelog. Raises NoSuchPeerError for a checkout in which none is installed."""
    if checkout is not None and not python_of(checkout).exists():
        raise NoSuchPeerError(f"{python_of(checkout)} is not there: run `make test` in {checkout} first")
    return BaselineKind(dict(settings or {}), checkout and checkout.absolute(), pure)


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Read KEY=VALUE pairs. Raises NoSuchPeerError for others."""
    settings = dict[str, str]()
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise NoSuchPeerError(f"--against-set {pair!r} is not KEY=VALUE")
        settings[key] = value
    return settings
