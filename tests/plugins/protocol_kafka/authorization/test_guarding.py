"""Guards around handlers: what they refuse, leave out and log, without a socket."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.lowlevel

from tests.plugins.protocol_kafka.against_kafka.asking import message
from tests.plugins.protocol_kafka.apis.client import Client
from tidelog.kernel.broker import Broker
from tidelog.kernel.metadata.acls import ALLOW, ANY_NAME, DENY, LITERAL, PREFIXED, AclEntry
from tidelog.kernel.request import Authorization
from tidelog.kernel.request.authorization import (
    AUDIT_LOG,
    MOST_DECISIONS,
    MOST_DECISIONS_OF_A_PRINCIPAL,
)
from tidelog.kernel.seams.authorizer import Authorizer, Subject, Undecided
from tidelog.kernel.seams.requests import AclOperation as Op
from tidelog.kernel.seams.requests import Permission, Principal, ResourceType
from tidelog.kernel.seams.wire import ProtocolViolation
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.protocol_kafka.apis.table import BUILT_IN
from tidelog.plugins.protocol_kafka.authorization import table
from tidelog.plugins.protocol_kafka.messages import api as a
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:root"}


class User:
    """A connection of a principal."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.client = Client(broker)
        vars_of(self).principal = Principal("User", name)

    async def ask(self, api: Api, version: int, **values: Any) -> Any:
        """The answer to a request."""
        return await self.client.ask(api, version, message(api.request_class, values))


def vars_of(user: User) -> Any:
    """The context of the requests of a connection."""
    wire: Any = user.client.wire
    return wire._context


@asynccontextmanager
async def secured(*entries: AclEntry, **settings: object) -> AsyncGenerator[Broker]:
    """A broker with the topics `a` and `b`, and these access control entries."""
    async with running_broker({**SETTINGS, **settings}) as broker:
        for name in "ab":
            await broker.topics.ensure(name)
        assert not any(await broker.controller.create_acls(entries))
        yield broker


def allowed(operation: Op, name: str, kind: ResourceType = TOPIC, **changes: Any) -> AclEntry:
    """An entry that allows alice something."""
    return AclEntry(kind, name, LITERAL, "User:alice", "*", operation, ALLOW)._replace(**changes)


def fetched(name: str, **others: Any) -> dict[str, Any]:
    """Fetch from the beginning of a topic."""
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {
        "topics": [{"topic": name, "partitions": [partition]}],
        "max_wait_ms": 0,
        "min_bytes": 0,
        **others,
    }


def produced(*names: str, acks: int = 1, **of_batch: Any) -> dict[str, Any]:
    """Produce a record to each topic."""
    batch = bytes(make_batch([b"x"], **of_batch))
    topics = [{"name": name, "partition_data": [{"index": 0, "records": batch}]} for name in names]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": topics}


def codes(answer: Any) -> dict[str, int]:
    """The error of each topic of an answer to Produce or Fetch."""
    found: dict[str, int] = {}
    for topic in answer.responses:
        partitions = getattr(topic, "partitions", None) or topic.partition_responses
        found[getattr(topic, "name", "") or topic.topic] = partitions[0].error_code
    return found


def test_every_api_has_a_guard_or_is_for_everyone() -> None:
    guards: dict[int, object] = vars(table)["_GUARDS"]
    assert {api.key for api in BUILT_IN} == guards.keys() | table.UNGUARDED
    assert not guards.keys() & table.UNGUARDED


async def test_without_an_authorizer_handlers_are_bare() -> None:
    async with running_broker() as broker:
        routes = Client(broker).routes
        assert routes[a.HEARTBEAT.key, 4].handle.__module__.endswith("apis.heartbeat")


async def test_produce_appends_to_topics_that_are_allowed_only() -> None:
    async with secured(allowed(Op.WRITE, "a")) as broker:
        answer = await User(broker, "alice").ask(a.PRODUCE, 9, **produced("a", "b", "missing"))
        assert codes(answer) == {"a": 0, "b": DENIED, "missing": DENIED}
        ends = [topic.partitions[0].log.log_end_offset for topic in broker.topics]
        assert sorted(ends) == [0, 1]


@pytest.mark.parametrize("operation", [Op.WRITE, Op.READ])
async def test_what_is_allowed_is_known_until_an_entry_or_the_principal_changes(operation: Op) -> None:
    api, request = (a.PRODUCE, produced("a")) if operation == Op.WRITE else (a.FETCH, fetched("a"))
    async with secured(allowed(operation, "a")) as broker:
        alice = User(broker, "alice")
        for _ in range(3):
            assert codes(await alice.ask(api, 9, **request)) == {"a": 0}
        context = vars_of(alice)
        assert "a" in context.known_access.writable | context.known_access.readable
        context.principal = Principal("User", "bob")
        assert codes(await alice.ask(api, 9, **request)) == {"a": DENIED}
        context.principal = Principal("User", "alice")
        assert codes(await alice.ask(api, 9, **request)) == {"a": 0}
        denying = allowed(operation, "a", permission_type=DENY)
        await broker.controller.create_acls([denying])
        for _ in range(2):
            assert codes(await alice.ask(api, 9, **request)) == {"a": DENIED}


@pytest.mark.parametrize("transactional_id", [None, "of-bob"])
async def test_transactional_records_need_their_id_on_a_topic_that_is_known(
    transactional_id: str | None,
) -> None:
    async with secured(allowed(Op.WRITE, "a")) as broker:
        alice = User(broker, "alice")
        assert codes(await alice.ask(a.PRODUCE, 9, **produced("a"))) == {"a": 0}
        request = produced("a", producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
        answer = await alice.ask(a.PRODUCE, 9, transactional_id=transactional_id, **request)
        assert codes(answer) == {"a": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
        assert codes(await alice.ask(a.PRODUCE, 9, **produced("a"))) == {"a": 0}


async def test_a_topic_id_that_is_unknown_is_not_known_to_be_allowed() -> None:
    async with secured(allowed(Op.WRITE, "*")) as broker:
        alice = User(broker, "alice")
        topic_id, data = (
            broker.topics.get("a").topic_id.bytes,
            produced("a")["topic_data"][0]["partition_data"],
        )
        both = [{"topic_id": each, "partition_data": data} for each in (topic_id, bytes(range(16)))]
        await alice.ask(a.PRODUCE, 13, acks=1, timeout_ms=1000, topic_data=both)
        assert vars_of(alice).known_access.writable == {topic_id}


async def test_produce_without_acks_closes_the_connection_once_the_rest_is_appended() -> None:
    async with secured(allowed(Op.WRITE, "a")) as broker:
        with pytest.raises(ProtocolViolation):
            await User(broker, "alice").ask(a.PRODUCE, 9, **produced("a", "b", acks=0))
        assert broker.topics.get("a").partitions[0].log.log_end_offset == 1
        assert broker.topics.get("b").partitions[0].log.log_end_offset == 0


async def test_a_fetch_session_ends_when_a_topic_of_it_is_denied() -> None:
    async with secured(allowed(Op.READ, "a")) as broker:
        alice = User(broker, "alice")
        opened = await alice.ask(a.FETCH, 12, **fetched("a", session_epoch=0))
        assert (codes(opened), bool(opened.session_id)) == ({"a": 0}, True)
        going_on = {"topics": [], "session_id": opened.session_id, "max_wait_ms": 0, "min_bytes": 0}
        answer = await alice.ask(a.FETCH, 12, **going_on, session_epoch=1)
        assert answer.error_code == 0
        await broker.controller.create_acls([allowed(Op.READ, "a", permission_type=DENY)])
        answer = await alice.ask(a.FETCH, 12, **going_on, session_epoch=2)
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        again = await alice.ask(a.FETCH, 12, **fetched("a", session_epoch=0))
        assert (codes(again), again.session_id) == ({"a": DENIED}, 0)


async def test_a_fetch_session_is_of_no_use_to_another_principal() -> None:
    async with secured(allowed(Op.READ, "a")) as broker:
        opened = await User(broker, "alice").ask(a.FETCH, 12, **fetched("a", session_epoch=0))
        request = {"topics": [], "session_id": opened.session_id, "session_epoch": 1}
        answer = await User(broker, "bob").ask(a.FETCH, 12, **request)
        assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


async def test_a_topic_that_is_added_to_a_fetch_session_has_to_be_allowed() -> None:
    async with secured(allowed(Op.READ, "a")) as broker:
        alice = User(broker, "alice")
        opened = await alice.ask(a.FETCH, 12, **fetched("a", session_epoch=0))
        answer = await alice.ask(a.FETCH, 12, **fetched("b", session_epoch=1, session_id=opened.session_id))
        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_follower_needs_cluster_action() -> None:
    async with secured(allowed(Op.READ, "a")) as broker:
        as_follower = fetched("a", session_epoch=-1, replica_id=2)
        assert codes(await User(broker, "alice").ask(a.FETCH, 12, **as_follower)) == {"a": DENIED}
        await broker.controller.create_acls([allowed(Op.CLUSTER_ACTION, "kafka-cluster", CLUSTER)])
        assert codes(await User(broker, "alice").ask(a.FETCH, 12, **as_follower)) == {"a": 0}


async def test_metadata_shows_and_creates_only_what_is_allowed() -> None:
    entries = [allowed(Op.DESCRIBE, "a"), allowed(Op.DESCRIBE, "n", pattern_type=PREFIXED)]
    async with secured(*entries, allowed(Op.CREATE, "new")) as broker:
        alice = User(broker, "alice")
        everything = await alice.ask(a.METADATA, 12, topics=None)
        assert [topic.name for topic in everything.topics] == ["a"]
        asked = [{"name": name} for name in ("a", "b", "missing", "new", "never")]
        answer = await alice.ask(a.METADATA, 12, topics=asked)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert {topic.name: topic.error_code for topic in answer.topics} == {
            "a": 0,
            "b": DENIED,
            "missing": DENIED,
            "new": unknown,
            "never": DENIED,
        }
        while broker.topics.find("new") is None:
            await trio.lowlevel.checkpoint()
        assert broker.topics.find("never") is None


async def test_requests_and_answers_with_many_names_are_guarded_in_steps() -> None:
    async with secured(allowed(Op.DESCRIBE, "many-", pattern_type=PREFIXED)) as broker:
        names = [f"many-{number}" for number in range(100)]
        for name in names:
            await broker.topics.ensure(name)
        alice = User(broker, "alice")
        everything = await alice.ask(a.METADATA, 12, topics=None, include_topic_authorized_operations=True)
        assert {topic.name for topic in everything.topics} == {*names}
        assert {topic.topic_authorized_operations for topic in everything.topics} == {1 << Op.DESCRIBE}
        asked = [{"name": name} for name in [*names, "a"]]
        named = await alice.ask(a.METADATA, 12, topics=asked)
        assert {topic.name: topic.error_code for topic in named.topics if topic.error_code} == {"a": DENIED}
        denied = await alice.ask(a.PRODUCE, 9, **produced(*names))
        assert {*codes(denied).values()} == {DENIED}
        groups = [f"g-{number}" for number in range(100)]
        deleted = await alice.ask(a.DELETE_GROUPS, 2, groups_names=groups)
        assert {each.error_code for each in deleted.results} == {ErrorCode.GROUP_AUTHORIZATION_FAILED}


async def test_pages_of_topics_continue_behind_one_that_is_not_allowed() -> None:
    async with secured(allowed(Op.DESCRIBE, "a"), allowed(Op.DESCRIBE, "c")) as broker:
        await broker.topics.ensure("c")
        alice = User(broker, "alice")
        first = await alice.ask(a.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=1)
        assert ([topic.name for topic in first.topics], first.next_cursor.topic_name) == (["a"], "c")
        cursor = {"topic_name": "b", "partition_index": 0}
        second = await alice.ask(a.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor=cursor)
        assert [topic.name for topic in second.topics] == ["c"]
        last = await alice.ask(
            a.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], cursor={"topic_name": "d", "partition_index": 0}
        )
        assert (last.topics, last.next_cursor) == ([], None)


async def test_a_super_user_may_do_everything_and_the_others_nothing() -> None:
    async with secured() as broker:
        assert codes(await User(broker, "root").ask(a.PRODUCE, 9, **produced("a"))) == {"a": 0}
        assert codes(await User(broker, "alice").ask(a.PRODUCE, 9, **produced("a"))) == {"a": DENIED}
        answer = await User(broker, "alice").ask(a.CREATE_ACLS, 3, creations=[{"resource_type": 2}])
        assert [each.error_code for each in answer.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


class Slow(Authorizer):
    """Decides by the name alone, and only once it was awaited."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}
        self.asked: list[str] = []

    def allows(self, subject: Subject, operation: Op, resource_type: ResourceType, name: str) -> bool:
        if name not in self.known:
            raise Undecided(lambda: self._decide(name))
        return self.known[name]

    async def _decide(self, name: str) -> None:
        await trio.lowlevel.checkpoint()
        self.asked.append(name)
        self.known[name] = name in {"a", "kafka-cluster", "g"}


class Failing(Authorizer):
    def allows(self, subject: Subject, operation: Op, resource_type: ResourceType, name: str) -> bool:
        raise ZeroDivisionError("a fault of the authorizer")

    def allows_any(self, subject: Subject, operation: Op, resource_type: ResourceType) -> bool:
        raise ZeroDivisionError("a fault of the authorizer")


@asynccontextmanager
async def with_authorizer(authorizer: Authorizer) -> AsyncGenerator[Broker]:
    async with running_broker() as broker:
        broker.authorization = Authorization(authorizer)
        for name in "ab":
            await broker.topics.ensure(name)
        yield broker


async def test_a_decision_that_takes_time_is_awaited_before_and_after_the_handler() -> None:
    slow = Slow()
    async with with_authorizer(slow) as broker:
        user = User(broker, "alice")
        assert codes(await user.ask(a.PRODUCE, 9, **produced("a", "b"))) == {"a": 0, "b": DENIED}
        assert broker.topics.get("a").partitions[0].log.log_end_offset == 1
        assert slow.asked == ["a", "b"]
        slow.known.clear()
        everything = await user.ask(a.METADATA, 12, topics=None)
        assert [topic.name for topic in everything.topics] == ["a"]
        answer = await user.ask(a.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
        assert answer.cluster_authorized_operations > 0


async def test_an_authorizer_that_fails_has_denied(caplog: pytest.LogCaptureFixture) -> None:
    async with with_authorizer(Failing()) as broker:
        user = User(broker, "alice")
        assert codes(await user.ask(a.PRODUCE, 9, **produced("a"))) == {"a": DENIED}
        answer = await user.ask(a.INIT_PRODUCER_ID, 4, transactional_id=None, transaction_timeout_ms=1000)
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    (failure,) = [each for each in caplog.records if "the authorizer Failing failed" in each.message]
    assert "ZeroDivisionError" in failure.message


@pytest.mark.parametrize(
    ("needs", "expected"), [([(CLUSTER, Op.ALTER)], True), ([(TOPIC, Op.READ)], False), ([], False)]
)
async def test_an_api_of_another_plugin_is_guarded_by_what_it_needs_of_the_cluster(
    needs: Sequence[tuple[ResourceType, Op]], *, expected: bool
) -> None:
    heartbeat = next(api for api in BUILT_IN if api.key == a.HEARTBEAT.key)
    api = heartbeat._replace(key=20_000, needs=tuple(Permission(*each) for each in needs))

    def handle(context: object, request: object) -> None:
        return

    guarded = table.guarded(Authorization(Failing()), api, handle)
    assert (guarded is not handle) is expected


def audit(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the audit log."""
    return [each.message for each in caplog.records if each.name == AUDIT_LOG]


async def test_denials_are_in_the_audit_log_once_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    async with secured(allowed(Op.WRITE, "a")) as broker:
        now = 0.0
        broker.authorization = Authorization(
            broker.authorization.authorizer if broker.authorization else Failing(),
            now=lambda: now,
        )
        alice = User(broker, "alice")
        for _ in range(5):
            await alice.ask(a.PRODUCE, 9, **produced("a", "b"))
        await alice.ask(a.METADATA, 12, topics=None)
        line = (
            "Principal = User:alice is Denied operation = WRITE from host = 127.0.0.1 on resource = "
            "Topic:LITERAL:b for request = Produce based on rule DefaultDeny"
        )
        assert audit(caplog) == [line]
        now = 11.0
        await alice.ask(a.PRODUCE, 9, **produced("b"))
        assert audit(caplog)[1:] == [f"{line} (4 more in between)"]


async def test_the_audit_log_has_a_limit_for_a_principal_and_for_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    now = 0.0
    authorization = Authorization(Failing(), now=lambda: now)

    def ask(user: str, names: int) -> list[str]:
        caplog.clear()
        subject = Subject(Principal("User", user), "127.0.0.1", "PLAINTEXT")
        for number in range(names):
            authorization.allows(subject, Op.READ, ResourceType.GROUP, f"g{number}", "Heartbeat")
        return audit(caplog)

    assert len(ask("greedy", 1500)) == MOST_DECISIONS_OF_A_PRINCIPAL
    assert len(ask("other", 3)) == 3
    flood = [line for number in range(200) for line in ask(f"user {number}", 1)]
    assert len(flood) == MOST_DECISIONS - MOST_DECISIONS_OF_A_PRINCIPAL - 3
    now = 11.0
    (line,) = ask("greedy", 1)
    assert "g0 for request = Heartbeat" in line
    assert "others were left out before)" in line


async def test_grants_are_in_the_audit_log_where_it_is_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, AUDIT_LOG)
    async with secured(allowed(Op.DESCRIBE, ANY_NAME)) as broker:
        await User(broker, "alice").ask(a.METADATA, 12, topics=[{"name": "a"}])
        (line,) = audit(caplog)
        await broker.controller.create_acls([allowed(Op.READ, "a")])
        await User(broker, "alice").ask(a.FETCH, 12, **fetched("a"))
        assert "is Allowed operation = READ" in audit(caplog)[1]
        assert "User:alice is Allowed operation = DESCRIBE" in line
        assert "Topic:LITERAL:a for request = Metadata based on rule MatchingAcl(" in line


async def test_grants_of_what_is_known_are_in_the_audit_log_from_when_it_is_at_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with secured(allowed(Op.WRITE, "a")) as broker:
        alice = User(broker, "alice")
        for level, lines in ((logging.INFO, 0), (logging.DEBUG, 1)):
            caplog.set_level(level, AUDIT_LOG)
            for _ in range(2):
                assert codes(await alice.ask(a.PRODUCE, 9, **produced("a"))) == {"a": 0}
            assert len(audit(caplog)) == lines


async def test_a_name_that_ends_a_line_forges_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, AUDIT_LOG)
    async with secured() as broker:
        await User(broker, "alice\nPrincipal = x").ask(a.HEARTBEAT, 4, group_id="g\r\nx")
        (line,) = audit(caplog)
        assert "\n" not in line
        assert "\r" not in line
