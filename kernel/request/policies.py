"""A controller that asks interceptors before topics are created, changed or deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.pace import Pace
from tidelog.kernel.request.active_interceptor import SLOW_SECONDS, ActiveInterceptor
from tidelog.kernel.seams.interceptors import (
    Change,
    PartitionsCreation,
    TopicConfigChange,
    TopicCreation,
    TopicDeletion,
)

if TYPE_CHECKING:
    from tidelog.kernel.config import Alter
    from tidelog.kernel.metadata import TopicImage
    from tidelog.kernel.seams.controller import Controller, TopicSpec

T = TypeVar("T")
R = TypeVar("R")


class Policies:
    """The interceptors that are asked before a change of topics."""

    def __init__(self, asked: Sequence[tuple[ActiveInterceptor, tuple[type[Change], ...]]]) -> None:
        """Ask each interceptor about changes of these types."""
        self._asked = asked

    def check(self, change: Change) -> None:
        """Ask all that are for the topic.

        Raises:
            BrokerError: one refuses the change, or failed.
        """
        for active, types in self._asked:
            if not isinstance(change, types) or not active.is_for_topic(change.topic):
                continue
            started = perf_counter()
            try:
                active.interceptor.before_change(change)
            except BrokerError:
                raise
            except Exception as error:
                active.failed(f"a change of topic {change.topic!r}", error)
            if (seconds := perf_counter() - started) > SLOW_SECONDS:
                active.note_slow("before_change", seconds)

    async def refusals(self, changes: Sequence[Change | None]) -> Sequence[BrokerError | None]:
        """Return what `check` raises for each change; nothing for one that is None."""
        pace = Pace()
        refused: list[BrokerError | None] = []
        for change in changes:
            try:
                if change is not None:
                    self.check(change)
            except BrokerError as error:
                refused.append(error)
            else:
                refused.append(None)
            await pace.turn()
        return refused


class ControllerWithPolicies:
    """A controller that decides as `wrapped` does what policies do not refuse.

    They are not asked about topics that a part of the broker declares. What is not said here is done by
    `wrapped`.
    """

    def __init__(self, wrapped: Controller, policies: Policies) -> None:
        self._wrapped = wrapped
        self._policies = policies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    def check_topic(self, new: TopicSpec) -> TopicImage:
        """Return the topic that `create_topics` would create."""
        topic = self._wrapped.check_topic(new)
        if not new.is_registered:
            self._policies.check(_creation(new))
        return topic

    def check_partitions(self, name: str, count: int) -> int:
        """Return how many partitions `create_partitions` would add to a topic."""
        added = self._wrapped.check_partitions(name, count)
        self._policies.check(PartitionsCreation(name, count))
        return added

    async def create_topics(self, wanted: Sequence[TopicSpec]) -> Sequence[TopicImage | BrokerError]:
        """Create topics, but for those that a policy refuses."""
        changes = [None if new.is_registered else _creation(new) for new in wanted]
        refused = await self._policies.refusals(changes)
        return await _only_admitted(wanted, refused, self._wrapped.create_topics)

    async def create_partitions(self, wanted: Sequence[tuple[str, int]]) -> Sequence[BrokerError | None]:
        """Give topics more partitions, but for those that a policy refuses."""
        refused = await self._policies.refusals([PartitionsCreation(*each) for each in wanted])
        return await _only_admitted(wanted, refused, self._wrapped.create_partitions)

    async def delete_topics(self, names: Sequence[str]) -> Sequence[BrokerError | None]:
        """Delete topics, but for those that a policy refuses."""
        refused = await self._policies.refusals([TopicDeletion(name) for name in names])
        return await _only_admitted(names, refused, self._wrapped.delete_topics)

    async def alter_topic_configs(
        self, changes: Sequence[tuple[str, Alter]], *, validate_only: bool = False
    ) -> Sequence[BrokerError | None]:
        """Change what topics set for themselves, but for what a policy refuses."""
        return await self._wrapped.alter_topic_configs(
            [(name, self._checked(name, alter)) for name, alter in changes], validate_only=validate_only
        )

    def _checked(self, topic: str, alter: Alter) -> Alter:
        def checked(before: Mapping[str, str]) -> dict[str, str]:
            after = alter(before)
            self._policies.check(TopicConfigChange(topic, before, after))
            return after

        return checked


def _creation(new: TopicSpec) -> TopicCreation:
    return TopicCreation(new.name, new.partitions, new.replication_factor, new.config)


async def _only_admitted(
    wanted: Sequence[T],
    refused: Sequence[BrokerError | None],
    change: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
) -> Sequence[R | BrokerError]:
    """Return the outcome of each: the refusal, or what `change` returns of the others."""
    admitted = [each for each, error in zip(wanted, refused, strict=True) if error is None]
    outcomes = iter(await change(admitted) if admitted else ())
    return [next(outcomes) if error is None else error for error in refused]
