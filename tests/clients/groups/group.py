"""A group of members of one client and the topic that they read; what they did between them."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from typing import TYPE_CHECKING

import attrs
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.deadlines import DEADLINE_S

from .member import Member

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from tests.clients.brokers import Broker

    from .kinds import Kind

PARTITIONS = 6
_numbers = itertools.count()


@attrs.define
class Group:
    """Members of a group; `running` are those that were neither told to leave nor killed."""

    broker: Broker
    kind: Kind
    settings: Mapping[str, str] = attrs.field(factory=dict[str, str])
    topic: str = attrs.field(factory=lambda: f"topic-{next(_numbers)}")
    running: list[Member] = attrs.field(factory=list[Member])
    members: list[Member] = attrs.field(factory=list[Member])
    produced: int = 0
    _producer: Producer = attrs.field(init=False)

    def __enter__(self) -> Group:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for created in admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]).values():
            created.result(DEADLINE_S)
        self._producer = Producer({"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for member in self.running:
            member.kill()
        if error is not None:
            for member in self.members:
                print(member.told)

    @property
    def group_id(self) -> str:
        """Its id."""
        return f"group-of-{self.topic}"

    def join(self, **settings: str) -> Member:
        """A new member; settings have underscores for dots."""
        own = {key.replace("_", "."): value for key, value in settings.items()}
        words = [f"{key}={value}" for key, value in {**self.settings, **own}.items()]
        arguments = [self.broker.bootstrap, self.topic, self.group_id, *words]
        command, environment = self.kind.command(arguments)
        member = Member(f"{self.kind.name} {len(self.members)}", command, environment)
        member.start()
        self.members.append(member)
        self.running.append(member)
        return member

    def leave(self, member: Member) -> None:
        """Have a member leave."""
        self.running.remove(member)
        member.leave()

    def kill(self, member: Member) -> None:
        """Kill a member."""
        self.running.remove(member)
        member.kill()

    def produce(self, to_each: int = 10) -> None:
        """This many records more in each partition, acknowledged."""
        refused: list[object] = []
        for _ in range(to_each):
            for partition in range(PARTITIONS):
                self._producer.produce(
                    self.topic,
                    b"record",
                    partition=partition,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
        assert self._producer.flush(DEADLINE_S) == 0
        assert not refused, refused[0]
        self.produced += to_each * PARTITIONS

    def commit(self) -> None:
        """Have every running member commit, and wait for it."""
        before = {member.name: member.commits for member in self.running}
        for member in self.running:
            member.tell("commit")
        self.wait(
            lambda: all(each.commits > before[each.name] for each in self.running), "a commit of every member"
        )

    def wait_settled(self) -> None:
        """Until every partition has one owner and every member at least one partition."""
        self.wait(self._is_settled, "an assignment of every partition to one member")

    def wait_read(self) -> None:
        """Until every record was read."""
        self.wait(lambda: len(self.read) >= self.produced, f"{self.produced} records")

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until a condition holds; AssertionError after a while, or when a member ended by itself."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            for member in self.running:
                assert member.is_running, f"{member.name} ended by itself: {member.complaints}"
            assert time.monotonic() < deadline, f"no {what}; {self._state()}"
            time.sleep(0.02)

    @property
    def read(self) -> Counter[tuple[int, int]]:
        """How often each record was read."""
        return Counter((read.partition, read.offset) for each in self.members for read in [*each.reads])

    def _is_settled(self) -> bool:
        owned = [member.owned for member in self.running]
        return all(owned) and sorted(itertools.chain(*owned)) == [*range(PARTITIONS)]

    def _state(self) -> str:
        states = [
            f"{each.name} owns {sorted(each.owned)}, read {len(each.reads)} {each.complaints}"
            for each in self.running
        ]
        return "; ".join(states)
