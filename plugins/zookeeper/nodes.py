"""Values of nodes: the JSON that Kafka writes, and what brokers of 0.7 wrote.

    /brokers/ids/ID                      version 5, ephemeral
    /brokers/topics/NAME                 version 3
    /brokers/topics/NAME/partitions/N/state  version 1
    /config/topics/NAME                  version 1
    /config/changes/config_change_SEQ    version 2
    /cluster/id                          version "1"
    /controller                          version 1, ephemeral

Clients of 0.8 read `host` and `port` of a broker, those of 0.9 and later `endpoints`; all read the
`partitions` of a topic, and ignore fields that they do not know. Source: Apache Kafka's `ZkData`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs

from tidelog.kernel.config.listeners import MAX_PORT, format_address
from tidelog.kernel.metadata import PartitionImage, TopicImage

PLAINTEXT: Final = "PLAINTEXT"
_NO_JMX: Final = -1
_NO_PORT: Final = -1


@attrs.frozen
class AdvertisedEndpoint:
    """A listener as clients reach it, and the security protocol that they use there."""

    listener: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        return f"{self.listener}://{format_address(self.host, self.port)}"


@attrs.frozen
class BrokerInfo:
    """What a broker registers of itself; `started_ms` since 1970."""

    node_id: int
    endpoints: Sequence[AdvertisedEndpoint]
    started_ms: int
    rack: str | None = None

    @property
    def plaintext(self) -> AdvertisedEndpoint | None:
        """The endpoint for clients that know of no other security protocol, None without one."""
        plain = (each for each in self.endpoints if each.security_protocol == PLAINTEXT)
        return next(plain, None)


@attrs.frozen
class Holder:
    """A registered broker as its node describes it; port -1 and an empty host where it says nothing."""

    host: str
    port: int
    endpoints: frozenset[str] = frozenset()


def broker(info: BrokerInfo) -> bytes:
    """Return the value of `/brokers/ids/ID`."""
    plain = info.plaintext
    rack = {} if info.rack is None else {"rack": info.rack}
    return _json(
        {
            "features": {},
            "listener_security_protocol_map": {
                each.listener: each.security_protocol for each in info.endpoints
            },
            "endpoints": [str(each) for each in info.endpoints],
            **rack,
            "jmx_port": _NO_JMX,
            "port": _NO_PORT if plain is None else plain.port,
            "host": None if plain is None else plain.host,
            "version": 5,
            "timestamp": str(info.started_ms),
        }
    )


def broker_07(info: BrokerInfo) -> bytes:
    """Return the value of `/brokers/ids/ID` in 0.7: `creator:host:port`, the creator without a colon.

    A broker without a listener for plain text has no address there.
    """
    plain = info.plaintext
    host, port = ("", _NO_PORT) if plain is None else (plain.host, plain.port)
    return f"{info.node_id}-{info.started_ms}:{host}:{port}".encode()


def parse_broker(value: bytes) -> Holder:
    """Return the broker that a node of either layout describes, as far as it can be read."""
    found = parse(value)
    if found is None:
        _, _, address = value.decode(errors="replace").partition(":")
        name, _, digits = address.rpartition(":")
        return Holder(name, int(digits) if digits.isdecimal() else _NO_PORT)
    host, port, endpoints = found.get("host"), found.get("port"), found.get("endpoints")
    texts = cast("list[object]", endpoints) if isinstance(endpoints, list) else []
    return Holder(
        host if isinstance(host, str) else "",
        port if isinstance(port, int) else _NO_PORT,
        frozenset(str(each) for each in texts),
    )


def address_by(protocol: str, value: bytes) -> tuple[str, int] | None:
    """Return where clients with a security protocol reach the broker of a node, None if nowhere."""
    holder, fields = parse_broker(value), parse(value) or {}
    if protocol == PLAINTEXT and holder.host and 0 < holder.port <= MAX_PORT:
        return holder.host, holder.port
    protocols = fields.get("listener_security_protocol_map")
    known = cast("dict[str, object]", protocols) if isinstance(protocols, dict) else {}
    for endpoint in sorted(holder.endpoints):
        listener, _, address = endpoint.partition("://")
        host, _, digits = address.rpartition(":")
        if known.get(listener, listener) == protocol and host and digits.isdecimal():
            return host.strip("[]"), int(digits)
    return None


def topic(image: TopicImage, node_id: int) -> bytes:
    """Return the value of `/brokers/topics/NAME`."""
    partitions = {
        str(number): _replicas(partition, node_id) for number, partition in enumerate(image.partitions)
    }
    return _json(
        {
            "partitions": partitions,
            "topic_id": _kafka_uuid(image.topic_id.bytes),
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        }
    )


def is_of_another_topic(value: bytes, image: TopicImage) -> bool:
    """Return whether the value of `/brokers/topics/NAME` is that of another topic of the same name."""
    found = parse(value)
    return found is not None and found.get("topic_id") != _kafka_uuid(image.topic_id.bytes)


def partition_state(partition: PartitionImage, node_id: int, controller_epoch: int) -> bytes:
    """Return the value of `/brokers/topics/NAME/partitions/N/state`."""
    leader = partition.leader if partition.replicas else node_id
    return _json(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": partition.leader_epoch,
            "isr": [*partition.isr] if partition.replicas else [node_id],
        }
    )


def is_same_state(there: bytes, wanted: bytes) -> bool:
    """Return whether two states differ at most in the epoch of the controller that wrote them."""
    one, other = parse(there), parse(wanted)
    if one is None or other is None:
        return there == wanted
    return {**one, "controller_epoch": 0} == {**other, "controller_epoch": 0}


def topic_config(config: Mapping[str, str]) -> bytes:
    """Return the value of `/config/topics/NAME`."""
    return _json({"version": 1, "config": dict(config)})


def config_change(topic_name: str) -> bytes:
    """Return the value of `/config/changes/config_change_SEQ`."""
    return _json({"version": 2, "entity_path": f"topics/{topic_name}"})


def cluster_id(identifier: str) -> bytes:
    """Return the value of `/cluster/id`."""
    return _json({"version": "1", "id": identifier})


def controller(node_id: int, elected_ms: int) -> bytes:
    """Return the value of `/controller`."""
    return _json({"version": 1, "brokerid": node_id, "timestamp": str(elected_ms)})


def parse(value: bytes) -> dict[str, object] | None:
    """Return the object that a value has as JSON, None if it is none."""
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", found) if isinstance(found, dict) else None


def _replicas(partition: PartitionImage, node_id: int) -> list[int]:
    # A store that does not record replicas has one broker.
    return [*partition.replicas] or [node_id]


def _kafka_uuid(identifier: bytes) -> str:
    return base64.urlsafe_b64encode(identifier).decode().rstrip("=")


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
