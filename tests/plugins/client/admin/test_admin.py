"""The admin client over each driver, against tidelog and Apache Kafka: what it changes is what it reads."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio
from confluent_kafka import Consumer, Producer

from tests.deadlines import DEADLINE_S
from tidelog.client import (
    Admin,
    AsyncAdmin,
    ConfigChange,
    ConfigResource,
    ConfigValue,
    CreatedTopic,
    GroupOffset,
    NewTopic,
    PartlyFailed,
    QuotaEntity,
    TopicMetadata,
    TopicPartition,
)
from tidelog.client import errors as client_errors
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode
from tidelog.plugins.protocol_kafka.messages.list_offsets import EARLIEST_TIMESTAMP

T = TypeVar("T")
Body = Callable[[Callable[[str], Any]], Coroutine[Any, Any, None]]

NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


class _Awaitable:
    """The blocking client with methods that are awaited and wait for no event loop."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(self._admin, name)(*args, **kwargs)

        return call


@asynccontextmanager
async def _blocking(bootstrap: str) -> AsyncGenerator[Any]:
    with Admin(bootstrap) as admin:
        yield _Awaitable(admin)


def _in_threads(body: Body) -> None:
    with pytest.raises(StopIteration):
        body(_blocking).send(None)


async def _bounded(body: Body) -> None:
    async with asyncio.timeout(4 * DEADLINE_S):
        await body(AsyncAdmin)


async def _trio_bounded(body: Body) -> None:
    with trio.fail_after(4 * DEADLINE_S):
        await body(AsyncAdmin)


RUNNERS: dict[str, Callable[[Body], None]] = {
    "threads": _in_threads,
    "trio": lambda body: trio.run(_trio_bounded, body),
    "asyncio": lambda body: asyncio.run(_bounded(body)),
}


@pytest.fixture(params=RUNNERS)
def run(request: pytest.FixtureRequest) -> Callable[[Body], None]:
    """Runs the body of a test with the admin client of a driver."""
    return RUNNERS[request.param]


def a_name() -> str:
    return f"t-{uuid.uuid4()}"


async def until(ask: Callable[[], Awaitable[T]], is_right: Callable[[T], bool]) -> T:
    """Ask until the answer is right, at most for the deadline, and return it.

    What does not exist yet is no answer: Apache Kafka takes a while to show what it was told.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            answer = await ask()
        except client_errors.ErrorResponse as error:
            if error.code not in NOT_YET or time.monotonic() > deadline:
                raise
        else:
            if is_right(answer):
                return answer
            assert time.monotonic() < deadline, answer


async def there(admin: Any, topic: str, partitions: int) -> None:
    """Wait for the leaders of a new topic or of more partitions."""

    def is_led(topics: Mapping[str, TopicMetadata]) -> bool:
        found = topics[topic].partitions
        return len(found) == partitions and all(each.leader > 0 for each in found)

    await until(lambda: admin.describe_topics([topic]), is_led)


def fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    producer.flush(DEADLINE_S)


def test_topics_are_created_described_grown_and_deleted(
    run: Callable[[Body], None], real_broker: str
) -> None:
    name = a_name()

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            cluster = await admin.describe_cluster()
            assert cluster.cluster_id
            assert list(cluster.brokers) == [1]
            created = await admin.create_topics([NewTopic(name, 2, config={"retention.ms": "1000"})])
            assert created[name].partitions == 2
            await there(admin, name, 2)
            assert name in await admin.list_topics()
            await admin.create_partitions({name: 3})
            await there(admin, name, 3)
            assert await admin.delete_topics([name]) == {name: None}
            await until(admin.list_topics, lambda names: name not in names)

    run(body)


def test_an_error_is_raised_for_one_thing_and_all_outcomes_are_for_several(
    run: Callable[[Body], None], real_broker: str
) -> None:
    good = a_name()

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            with pytest.raises(client_errors.ErrorResponse) as single:
                await admin.create_topics([NewTopic("no/name")])
            assert single.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
            with pytest.raises(PartlyFailed, match=r"1 of 2 failed: .*no/name.*INVALID_TOPIC") as some:
                await admin.create_topics([NewTopic(good), NewTopic("no/name")])
            assert list(some.value.errors) == ["no/name"]
            assert isinstance(some.value.outcomes[good], CreatedTopic)
            with pytest.raises(client_errors.ErrorResponse, match="GROUP_ID_NOT_FOUND"):
                await admin.describe_groups([a_name()])

    run(body)


def test_configuration_of_topics_brokers_and_groups(run: Callable[[Body], None], real_broker: str) -> None:
    name = a_name()
    group = ConfigResource("group", a_name())
    everyone = ConfigResource("broker", "")

    def shows_all(found: Mapping[Any, Sequence[ConfigValue]]) -> bool:
        """Apache Kafka shows one change after the other."""
        values = {(key, each.name): each.value for key, some in found.items() for each in some}
        broker = ConfigResource("broker", "1")
        return (
            values[name, "retention.ms"] == "5000"
            and values.get((group, "consumer.session.timeout.ms")) == "50000"
            and values[broker, "log.retention.ms"] == "777777"
            and values.get((everyone, "log.retention.ms")) == "777777"
        )

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            await admin.create_topics([NewTopic(name)])
            await there(admin, name, 1)
            await admin.alter_configs(
                {
                    name: [ConfigChange("retention.ms", "5000")],
                    group: [ConfigChange("consumer.session.timeout.ms", "50000")],
                    everyone: [ConfigChange("log.retention.ms", "777777")],
                }
            )
            try:
                broker = ConfigResource("broker", "1")
                resources = [name, group, everyone, broker]
                described = await until(lambda: admin.describe_configs(resources), shows_all)
            finally:
                await admin.alter_configs({everyone: [ConfigChange("log.retention.ms", operation="delete")]})
            by_key = {key: {value.name: value for value in values} for key, values in described.items()}
            own = by_key[name]["retention.ms"]
            assert (own.value, own.is_own, own.source) == ("5000", True, "topic")
            assert by_key[name]["cleanup.policy"].source == "default"
            session = by_key[group]["consumer.session.timeout.ms"]
            assert (session.value, session.is_own, session.source) == ("50000", True, "group")
            common = by_key[broker]["log.retention.ms"]
            assert (common.is_own, common.source) == (False, "cluster")
            assert by_key[everyone]["log.retention.ms"].is_own
            assert by_key[broker]["node.id"].is_read_only

    run(body)


def test_records_are_deleted_up_to_an_offset(run: Callable[[Body], None], real_broker: str) -> None:
    name = a_name()
    place = TopicPartition(name, 0)

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            await admin.create_topics([NewTopic(name)])
            await there(admin, name, 1)
            fill(real_broker, name, 10)
            assert await admin.delete_records({place: 4}) == {place: 4}
            assert (await admin.list_offsets([place], EARLIEST_TIMESTAMP))[place].offset == 4
            assert await admin.delete_records({place: -1}) == {place: 10}
            with pytest.raises(client_errors.ErrorResponse, match="OFFSET_OUT_OF_RANGE"):
                await admin.delete_records({place: 11})

    run(body)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_are_listed_described_and_deleted(
    run: Callable[[Body], None], real_broker: str, protocol: str
) -> None:
    name, group = a_name(), a_name()
    place, other = TopicPartition(name, 0), TopicPartition(name, 1)

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            await admin.create_topics([NewTopic(name, 2)])
            await there(admin, name, 2)
            with _Member(real_broker, group, name, protocol):
                described = (
                    await until(
                        lambda: admin.describe_groups([group]),
                        lambda found: (
                            found[group].state == "Stable"
                            and found[group].members[0].partitions == (place, other)
                        ),
                    )
                )[group]
                assert (described.type, described.protocol_type, described.coordinator) == (
                    protocol,
                    "consumer",
                    1,
                )
                assert [member.client_id for member in described.members] == ["a-member"]
                listed = {each.group_id: each for each in await admin.list_groups(states=["Stable"])}
                assert (listed[group].type, listed[group].state) == (protocol, "Stable")
                assert group not in {each.group_id for each in await admin.list_groups(states=["Empty"])}
                with pytest.raises(client_errors.ErrorResponse, match="NON_EMPTY_GROUP"):
                    await admin.delete_groups([group])
                with pytest.raises(client_errors.ErrorResponse, match="GROUP_SUBSCRIBED_TO_TOPIC"):
                    await admin.delete_offsets(group, [place])
            await admin.commit_offsets(group, {place: GroupOffset(3), other: GroupOffset(4, "note")})
            assert await admin.delete_offsets(group, [place]) == {place: None}
            assert await admin.committed_offsets(group) == {other: GroupOffset(4, "note")}
            assert await admin.delete_groups([group]) == {group: None}
            assert group not in {each.group_id for each in await admin.list_groups()}

    run(body)


class _Member:
    """A consumer of librdkafka in the group, which polls until the end of the block."""

    def __init__(self, bootstrap: str, group: str, topic: str, protocol: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": "a-member",
                "group.protocol": protocol,
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def _poll(self) -> None:
        while not self._ends.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ends.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "the member was not closed"


def test_quotas_are_set_found_and_removed(run: Callable[[Body], None], real_broker: str) -> None:
    user, app = f"u-{uuid.uuid4()}", QuotaEntity(client_id=f"app-{uuid.uuid4()}")
    both = QuotaEntity(user=user, client_id=QuotaEntity.DEFAULT)

    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            changes = {
                app: {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0},
                both: {"request_percentage": 50.0},
            }
            assert await admin.alter_quotas(changes) == {app: None, both: None}
            found = await until(lambda: admin.describe_quotas(app), bool)
            assert found == {app: changes[app]}
            assert await admin.describe_quotas(QuotaEntity(user=user)) == {both: changes[both]}
            assert await admin.describe_quotas(QuotaEntity(user=user), strict=True) == {}
            await admin.alter_quotas({app: {"producer_byte_rate": None}}, validate_only=True)
            await admin.alter_quotas({app: {"consumer_byte_rate": None}})
            left = {app: {"producer_byte_rate": 1000.0}}
            await until(lambda: admin.describe_quotas(app), lambda found: found == left)
            with pytest.raises(client_errors.ErrorResponse, match="INVALID_REQUEST"):
                await admin.alter_quotas({app: {"no_such_quota": 1.0}})

    run(body)


def test_features_are_described_and_a_wrong_level_is_refused(
    run: Callable[[Body], None], real_broker: str
) -> None:
    async def body(connect: Any) -> None:
        async with connect(real_broker) as admin:
            features = await admin.describe_features()
            version = features["metadata.version"]
            assert version.lowest <= version.level <= version.highest
            with pytest.raises(client_errors.ErrorResponse, match=r"metadata\.version"):
                await admin.update_features({"metadata.version": version.highest + 1}, validate_only=True)

    run(body)


def test_a_closed_client_and_wrong_settings_are_refused(real_broker: str) -> None:
    with Admin(real_broker) as admin:
        admin.describe_cluster()
    with pytest.raises(client_errors.ClientClosed):
        admin.describe_cluster()
    with pytest.raises(ValueError, match="request_timeout_ms"):
        Admin(real_broker, request_timeout_ms=0)
    with pytest.raises(TypeError, match="request_timeout"):
        Admin(real_broker, request_timeout=1)  # type: ignore[call-arg]  # pyright: ignore


def test_a_broker_that_is_not_there_is_named() -> None:
    with (
        Admin("127.0.0.1:9", retries=0) as admin,
        pytest.raises(client_errors.BrokerUnreachable, match=r"127\.0\.0\.1:9"),
    ):
        admin.list_topics()
