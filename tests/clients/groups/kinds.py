"""The clients whose groups are tried, and how each is told what to do."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Protocol

import attrs

from tests.clients.java_programs import java_command
from tests.clients.node_programs import node_command
from tests.peers import NEWEST_KAFKA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KAFKAJS = "kafkajs@2.2.4"


class Kind(Protocol):
    """A client that can be a member."""

    @property
    def name(self) -> str: ...
    @property
    def cooperative(self) -> str | None:
        """Its value of partition.assignment.strategy for cooperative-sticky, None when it has none."""
        ...

    @property
    def static(self) -> bool:
        """Whether it knows group.instance.id."""
        ...

    @property
    def tells_revocation(self) -> bool:
        """Whether it always tells of giving up partitions before others can have them."""
        ...

    @property
    def starts_over(self) -> bool:
        """Whether it joins anew when its broker was away, and reads again what it had not committed."""
        ...

    def command(self, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str] | None]:
        """Command line and environment of a member with these arguments."""
        ...


@attrs.frozen
class PythonKind:
    """A client of Python programs."""

    name: str
    cooperative: str | None = None
    static: bool = True
    tells_revocation: bool = True
    starts_over: bool = False

    def command(self, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str] | None]:
        return [sys.executable, "-m", f"tests.clients.groups.members.{self.name}", *words], None


@attrs.frozen
class JavaKind:
    """The Java client of one release."""

    release: str = NEWEST_KAFKA
    cooperative: str | None = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    static: bool = True
    tells_revocation: bool = True
    starts_over: bool = False

    @property
    def name(self) -> str:
        return f"java-{self.release}"

    def command(self, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str] | None]:
        return java_command("Member", self.release, words), None


@attrs.frozen
class NodeKind:
    """kafkajs."""

    name: str = "kafkajs"
    cooperative: str | None = None
    static: bool = False
    tells_revocation: bool = False
    starts_over: bool = True

    def command(self, words: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str] | None]:
        command, environment = node_command("member.js", KAFKAJS, words)
        return command, {**os.environ, **environment}


CONFLUENT = PythonKind("confluent_kafka", cooperative="cooperative-sticky")
TIDELOG = PythonKind("tidelog_client", cooperative="cooperative-sticky")
KINDS: tuple[Kind, ...] = (
    CONFLUENT,
    TIDELOG,
    PythonKind("aiokafka"),
    PythonKind("kafka_python", cooperative="cooperative-sticky"),
    NodeKind(),
    JavaKind(),
)
