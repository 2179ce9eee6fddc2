"""What a principal may do and see: as with Apache Kafka's StandardAuthorizer, field by field."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.deadlines import wait_until
from tests.peers.kafka_server import running_kafka
from tests.peers.ports import LOOPBACK, free_ports
from tidelog.kernel.metadata.acls import ALLOW, ANY_NAME, DENY, LITERAL, PREFIXED, AclEntry
from tidelog.kernel.seams.requests import AclOperation, ResourceType
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.protocol_kafka.messages import api as a
from tidelog.plugins.protocol_kafka.messages.api import Api
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

from .access_cases import CASES, CONSUMERS, CREATED, KAFKA_CLUSTER, A, AccessCase, B, G, H, T, produced
from .acl_cases import ENTRIES, EVERY, FILTERS, ODD_ENTRIES, creation, filter_values
from .asking import Asker, message, plain

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALICE, BOB, ROOT = "alice", "bob", "root"
SUPER_USERS = "User:ANONYMOUS;User:root"
GENERATED = frozenset({"brokers", "cluster_id", "topic_id", "node_endpoints", "host", "port", "node_id"})
ATTEMPTS = 3
LONG_SESSIONS = {
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "600000",
}
USUAL = (
    a.PRODUCE,
    a.METADATA,
    a.OFFSET_FETCH,
    a.SYNC_GROUP,
    a.CREATE_TOPICS,
    a.INIT_PRODUCER_ID,
    a.DESCRIBE_ACLS,
)
"""The APIs that are asked in each run; all are in the long one."""


@attrs.frozen
class Side:
    """A broker: a connection that may do everything, and one of each user, which `connect` opens."""

    root: Asker
    connect: Callable[[str], Asker]
    users: dict[str, Asker] = attrs.field(factory=dict[str, Asker])
    ids: dict[str, bytes] = attrs.field(factory=dict[str, bytes])

    def ask(self, asker: Asker, api: Api, version: int, **values: Any) -> Any:
        """The answer to a request."""
        return asker.ask(api, version, message(api.request_class, values))

    def ask_as(self, user: str, api: Api, version: int, **values: Any) -> Any:
        """The answer to a user's request, None if the broker closes the connection."""
        asker = self.users.get(user) or self.users.setdefault(user, self.connect(user))
        try:
            return self.ask(asker, api, version, **values)
        except (AssertionError, OSError):
            self.users.pop(user).close()
            return None

    def retry(self, api: Api, version: int, **values: Any) -> None:
        """Ask as the super user until there is no error: a coordinator may still be loading."""

        def done() -> bool:
            return "_code': 0" in (found := str(plain(self.ask(self.root, api, version, **values)))) and not (
                re.search(r"_code': (?!0)", found)
            )

        wait_until(done, f"{api.name} without an error")

    def close(self) -> None:
        """Disconnect."""
        for asker in (self.root, *self.users.values()):
            asker.close()

    def create(self, *names: str) -> None:
        """Create topics, and note their ids."""
        topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
        self.ask(self.root, a.CREATE_TOPICS, 7, topics=topics, timeout_ms=10_000)

        def known() -> bool:
            asked = [{"name": name} for name in names]
            found = self.ask(self.root, a.METADATA, 12, topics=asked, allow_auto_topic_creation=False).topics
            self.ids.update({topic.name: topic.topic_id for topic in found})
            return all(topic.partitions and not topic.partitions[0].error_code for topic in found)

        wait_until(known, f"the topics {names}")

    def grant(self, entries: Sequence[AclEntry]) -> None:
        """Have these access control entries and no others."""
        every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        self.ask(self.root, a.DELETE_ACLS, 3, filters=[every])
        creations = [
            {
                "resource_type": entry.resource_type,
                "resource_name": entry.resource_name,
                "resource_pattern_type": entry.pattern_type,
                "principal": entry.principal,
                "host": entry.host,
                "operation": entry.operation,
                "permission_type": entry.permission_type,
            }
            for entry in entries
        ]
        created = self.ask(self.root, a.CREATE_ACLS, 3, creations=creations)
        assert [result.error_code for result in created.results] == [0] * len(entries)

        def listed() -> bool:
            found = self.ask(self.root, a.DESCRIBE_ACLS, 3, **every).resources
            return sum(len(resource.acls) for resource in found) == len({*entries})

        wait_until(listed, "the entries")


def logged_in(bootstrap: str, user: str) -> Asker:
    """A connection to Apache Kafka of that user, by SASL/PLAIN."""
    asker = Asker(bootstrap)
    mechanism, token = b"PLAIN", b"\0" + user.encode() + b"\0secret"
    for key, version, body in (
        (17, 1, struct.pack(">h", len(mechanism)) + mechanism),
        (36, 0, struct.pack(">i", len(token)) + token),
    ):
        header = struct.pack(">hhih", key, version, 1, 5) + b"tests"
        asker.send(struct.pack(">i", len(header) + len(body)) + header + body)
        (size,) = struct.unpack(">i", vars(asker)["_file"].read(4))
        (code,) = struct.unpack_from(">h", vars(asker)["_file"].read(size), 4)
        assert code == 0
    return asker


@pytest.fixture(scope="module")
def kafka_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """Apache Kafka with users."""
    plain_port, sasl_port, controller = free_ports(3)
    logins = "".join(f' user_{user}="secret"' for user in (ALICE, BOB, ROOT))
    addresses = f"PLAINTEXT://{LOOPBACK}:{plain_port},USERS://{LOOPBACK}:{sasl_port}"
    settings = {
        **LONG_SESSIONS,
        "authorizer.class.name": STANDARD,
        "super.users": SUPER_USERS,
        "listeners": f"{addresses},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": addresses,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required{logins};"
        ),
    }
    folder = tmp_path_factory.mktemp("kafka")
    with running_kafka(folder, settings=settings, port=plain_port):
        root = Asker(f"{LOOPBACK}:{plain_port}")
        side = Side(root, partial(logged_in, f"{LOOPBACK}:{sasl_port}"))
        yield prepared(side)
        side.close()


USERS_BY_LISTENER = """
from tidelog.kernel import hookimpl
from tidelog.kernel.seams.authorizer import Authorizer
from tidelog.kernel.seams.requests import Principal


class ByListener(Authorizer):
    has_acls = True

    def __init__(self, inner):
        self.inner = inner
        self.load, self.follow = inner.load, inner.follow

    def who(self, subject):
        if subject.listener == "PLAINTEXT":
            return subject
        return subject._replace(principal=Principal("User", subject.listener.lower()))

    def allows(self, subject, *asked):
        return self.inner.allows(self.who(subject), *asked)

    def allows_any(self, subject, *asked):
        return self.inner.allows_any(self.who(subject), *asked)


class ByListenerBackend:
    name = "by-listener"

    def create(self, context):
        return ByListener(context.backend("standard").create(context))


@hookimpl
def tidelog_authorizers():
    return [ByListenerBackend()]
"""


@pytest.fixture(scope="module")
def tidelog_side(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """A broker with a listener for each user."""
    folder: Path = tmp_path_factory.mktemp("plugins")
    (folder / "users_by_listener.py").write_text(USERS_BY_LISTENER)
    names = [user.upper() for user in (ALICE, BOB, ROOT)]
    protocols = ",".join(f"{name}:PLAINTEXT" for name in ("PLAINTEXT", *names))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        settings = {
            "plugins": "users_by_listener",
            "authorizer.class.name": "by-listener",
            "super.users": SUPER_USERS,
            "listeners": ",".join(f"{name}://{LOOPBACK}:0" for name in ("PLAINTEXT", *names)),
            "listener.security.protocol.map": protocols,
            "group.initial.rebalance.delay.ms": "0",
            **LONG_SESSIONS,
            "storage": "file",
            "log.dirs": str(folder / "data"),
        }
        with broker_in_thread(settings) as running:
            addresses = running.broker.listeners
            side = Side(Asker(addresses["PLAINTEXT"]), lambda user: Asker(addresses[user.upper()]))
            yield prepared(side)
            side.close()


def prepared(side: Side) -> Side:
    """The broker with records in topics, groups with offsets, a transaction, and a consumer group."""
    side.create(*CREATED)
    side.retry(a.PRODUCE, 12, **produced(*CREATED)({}, 0))
    for group in (G, H):
        side.retry(a.FIND_COORDINATOR, 3, key=group)
        topics = [
            {"name": name, "partitions": [{"partition_index": 0, "committed_offset": 5}]} for name in CREATED
        ]
        side.retry(a.OFFSET_COMMIT, 8, group_id=group, topics=topics)
    side.retry(a.FIND_COORDINATOR, 3, key=T, key_type=1)
    side.retry(a.INIT_PRODUCER_ID, 4, transactional_id=T, transaction_timeout_ms=600_000)
    side.retry(
        a.CONSUMER_GROUP_HEARTBEAT,
        1,
        group_id=CONSUMERS,
        member_id="BAAAAAAAAAAAAAAAAAAAAA",
        rebalance_timeout_ms=600_000,
        subscribed_topic_names=[CREATED[0]],
        topic_partitions=[],
    )
    return side


@attrs.frozen
class Situation:
    """Who asks, and which entries there are."""

    name: str
    user: str
    entries: Sequence[AclEntry]


def situations(case: AccessCase, number: int) -> Iterator[Situation]:
    """All situations for a case whose request has that number."""
    needs = [(kind, operation, name.format(number)) for kind, operation, name in case.needs]

    def entry(need: Any, **changes: Any) -> AclEntry:
        kind, operation, name = need
        allowed = AclEntry(kind, name, LITERAL, "User:alice", "*", operation, ALLOW)
        return allowed._replace(**changes)

    literal = [entry(need) for need in needs]
    yield Situation("denied", ALICE, [])
    yield Situation("allowed", ALICE, literal)
    for each in literal if len(literal) > 1 else ():
        yield Situation(f"{each} alone", ALICE, [each])
    yield Situation("other principal", BOB, literal)
    yield Situation("super user", ROOT, [])
    yield Situation("prefixed", ALICE, [_widened(each) for each in literal])
    wide = [each if _is_cluster(each) else each._replace(resource_name=ANY_NAME) for each in literal]
    yield Situation("wildcard", ALICE, wide)
    yield Situation("other host", ALICE, [each._replace(host="192.0.2.1") for each in literal])
    for each in literal:
        yield Situation(f"{each} denied", ALICE, [*wide, each._replace(permission_type=DENY)])


def _is_cluster(entry: AclEntry) -> bool:
    return entry.resource_type == ResourceType.CLUSTER


def _widened(entry: AclEntry) -> AclEntry:
    if entry.resource_name == ANY_NAME:
        return entry
    shorter = KAFKA_CLUSTER if _is_cluster(entry) else entry.resource_name[:-1]
    return entry._replace(resource_name=shorter, pattern_type=LITERAL if _is_cluster(entry) else PREFIXED)


def shown(answer: Any, hidden: frozenset[str]) -> Any:
    """What both brokers have to have alike in an answer."""
    if isinstance(answer, dict):
        # The words about an error are each broker's own; `worded` has where there are some.
        hidden_here = hidden | {"error_message"} if answer.get("error_code") else hidden
        return {name: shown(value, hidden) for name, value in answer.items() if name not in hidden_here}
    if isinstance(answer, list):
        items = [shown(item, hidden) for item in answer]
        return sorted(items, key=repr) if items and isinstance(items[0], dict) else items
    return bytes(answer) if isinstance(answer, memoryview) else answer


def worded(answer: Any) -> Counter[int]:
    """How many errors of each code there are with an error message."""
    if isinstance(answer, dict):
        here = answer.get("error_code")
        own = Counter([here] if here and answer.get("error_message") else [])
        return sum(map(worded, answer.values()), own)
    return sum(map(worded, answer), Counter[int]()) if isinstance(answer, list) else Counter()


def differences(case: AccessCase, kafka: Side, tidelog: Side, first: int) -> Iterator[str]:
    """What is answered differently, in each situation and version.

    Where Apache Kafka has an error message, tidelog has one; of some errors only tidelog says why.
    Kafka's controller has new entries a little later than the broker that lists them, and asks its own.
    """
    numbers, hidden = count(first), GENERATED | {*case.hides}
    for version in case.asked_versions:
        for index, _ in enumerate(situations(case, 0)):
            different = ""
            for _ in range(ATTEMPTS):
                number = next(numbers)
                situation = [*situations(case, number)][index]
                expected, found = (
                    _answer(side, case, version, situation, number) for side in (kafka, tidelog)
                )
                different = (
                    f"{case.api.name} {version} {situation.name} {situation.user}:\n"
                    f"    Kafka   {expected}\n    tidelog {found}"
                )
                if shown(expected, hidden) == shown(found, hidden) and not worded(expected) - worded(found):
                    break
            else:
                yield different


def _answer(side: Side, case: AccessCase, version: int, situation: Situation, number: int) -> Any:
    if case.creates:
        side.create(*(name.format(number) for name in case.creates))
    side.grant(situation.entries)
    answer = side.ask_as(situation.user, case.api, version, **case.values(side.ids, number))
    return None if answer is None else plain(answer, frozenset())


def _wrong(cases: Sequence[AccessCase], kafka: Side, tidelog: Side) -> str:
    return "\n".join(
        each for number, case in enumerate(cases) for each in differences(case, kafka, tidelog, 1000 * number)
    )


def test_the_usual_apis_are_authorized_as_in_kafka(kafka_side: Side, tidelog_side: Side) -> None:
    cases = [case for case in CASES if case.api in USUAL]
    assert not (wrong := _wrong(cases, kafka_side, tidelog_side)), wrong


@pytest.mark.long
def test_all_apis_are_authorized_as_in_kafka(kafka_side: Side, tidelog_side: Side) -> None:
    cases = [case for case in CASES if case.api not in USUAL]
    assert not (wrong := _wrong(cases, kafka_side, tidelog_side)), wrong


def test_entries_and_filters_are_answered_as_in_kafka(kafka_side: Side, tidelog_side: Side) -> None:
    usual = creation(ENTRIES[0])
    created = [[creation(each)] for each in ODD_ENTRIES]
    # What is wrong in one entry is answered for that one, or for all of the request.
    together = [[usual, *each] for each in created] + [[creation(each) for each in ENTRIES]]
    filters = [filter_values(each) for each in FILTERS]
    deleted = [[each] for each in reversed(filters)] + [filters[1:3]]

    def found(side: Side, api: Api, version: int, **values: Any) -> Any:
        """An answer with its texts; None if the connection is closed."""
        answer = side.ask_as(ROOT, api, version, **values)
        return None if answer is None else plain(answer, frozenset())

    def alike(api: Api, version: int, **values: Any) -> str:
        """How the answers differ."""
        expected, ours = (found(side, api, version, **values) for side in (kafka_side, tidelog_side))
        return "" if expected == ours else f"{api.name} {values}:\n  Kafka {expected}\n  tidelog {ours}\n"

    for side in (kafka_side, tidelog_side):
        side.grant(ENTRIES)
    wrong = [alike(a.CREATE_ACLS, 3, creations=each) for each in [*created, *together]]
    every = filter_values(EVERY)
    # Kafka's broker describes what its controller has a little later.
    wait_until(lambda: not alike(a.DESCRIBE_ACLS, 3, **every), "the same entries")
    wrong += [alike(a.DESCRIBE_ACLS, version, **each) for each in filters for version in (1, 3)]
    wrong += [alike(a.DELETE_ACLS, 3, filters=each) for each in deleted]
    assert not "".join(wrong), "".join(wrong)


def test_a_regular_expression_matches_topics_that_its_member_may_describe(
    kafka_side: Side, tidelog_side: Side
) -> None:
    def assigned(side: Side) -> set[str]:
        """What a member that subscribes to both topics gets."""
        member = {"group_id": G + "-regex", "member_id": "CAAAAAAAAAAAAAAAAAAAAA"}
        topics: list[Any] = []

        def has_assignment() -> bool:
            wants = {"rebalance_timeout_ms": 600_000, "subscribed_topic_regex": "acl-topic-[ab]"}
            answer = side.ask_as(ALICE, a.CONSUMER_GROUP_HEARTBEAT, 1, **member, **wants, topic_partitions=[])
            # Apache Kafka finds the topics after its first answers.
            topics[:] = answer.assignment.topic_partitions if answer and answer.assignment else []
            return bool(topics)

        wait_until(has_assignment, "an assignment")
        described = side.ask(side.root, a.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[member["group_id"]])
        (found,) = described.groups[0].members
        assert (found.subscribed_topic_names, found.subscribed_topic_regex) == ([], "acl-topic-[ab]")
        side.ask_as(ALICE, a.CONSUMER_GROUP_HEARTBEAT, 1, **member, member_epoch=-1)
        names = {topic_id: name for name, topic_id in side.ids.items()}
        return {names[each.topic_id] for each in topics}

    for side in (kafka_side, tidelog_side):
        group = AclEntry(ResourceType.GROUP, G, PREFIXED, "User:alice", "*", AclOperation.READ, ALLOW)
        seen = AclEntry(ResourceType.TOPIC, A, LITERAL, "User:alice", "*", AclOperation.DESCRIBE, ALLOW)
        side.grant([group, seen])
        assert assigned(side) == {A}
        side.grant([group, seen, seen._replace(resource_name=B)])
        assert assigned(side) == {A, B}


def test_what_is_not_there_yet_is_answered_alike(kafka_side: Side, tidelog_side: Side) -> None:
    def found(side: Side, name: str) -> list[Any]:
        """The expression of a member without one, and the first offset of a topic without records."""
        described = side.ask(side.root, a.CONSUMER_GROUP_DESCRIBE, 1, group_ids=[CONSUMERS])
        topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
        listed = side.ask(side.root, a.LIST_OFFSETS, 10, replica_id=-1, topics=topics)
        regexes = [member.subscribed_topic_regex for member in described.groups[0].members]
        return [regexes, plain(listed.topics[0].partitions[0])]

    for side in (kafka_side, tidelog_side):
        side.create("acl-empty")
    assert found(tidelog_side, "acl-empty") == found(kafka_side, "acl-empty")
    assert found(tidelog_side, "acl-empty")[0] == [""]


def test_every_api_has_a_case() -> None:
    apis = {value for value in vars(a).values() if isinstance(value, Api)}
    before_any_principal = {a.API_VERSIONS, a.SASL_HANDSHAKE, a.SASL_AUTHENTICATE}
    # Those are asked in test_delegation_tokens.py: only clients that have logged in may use them.
    of_tokens = {
        a.CREATE_DELEGATION_TOKEN,
        a.RENEW_DELEGATION_TOKEN,
        a.EXPIRE_DELEGATION_TOKEN,
        a.DESCRIBE_DELEGATION_TOKEN,
    }
    unguarded = {*before_any_principal, *of_tokens, a.GET_TELEMETRY_SUBSCRIPTIONS, a.PUSH_TELEMETRY}
    assert apis - unguarded == {case.api for case in CASES}


def test_without_a_secret_there_are_no_tokens(kafka_side: Side) -> None:
    users = ' user_alice="secret"'
    settings = {
        "listeners": f"USERS://{LOOPBACK}:0",
        "listener.security.protocol.map": "USERS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f"PlainLoginModule required{users};",
    }
    with broker_in_thread(settings) as running:
        asker = logged_in(running.bootstrap, ALICE)
        for api in (
            a.CREATE_DELEGATION_TOKEN,
            a.RENEW_DELEGATION_TOKEN,
            a.EXPIRE_DELEGATION_TOKEN,
            a.DESCRIBE_DELEGATION_TOKEN,
        ):
            found = plain(asker.ask(api, api.versions.high, message(api.request_class, {})))
            expected = plain(kafka_side.ask_as(ALICE, api, api.versions.high))
            assert found == expected
            assert found["error_code"] == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        asker.close()
