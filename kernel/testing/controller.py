"""Conformance of controllers: a suite that everything passes that the key `controller` can name.

    class TestMyController(ControllerConformance, controller="mine"): ...

Each test runs a broker in memory, whose image and parts have what the controller decided when it returns.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import AsyncGenerator
from typing import ClassVar

import pytest
import trio

from tidelog.kernel.broker import Broker
from tidelog.kernel.config import Alter, keys
from tidelog.kernel.errors import (
    BrokerError,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    InvalidConfig,
    InvalidPartitions,
    InvalidPrincipalType,
    InvalidRequest,
    InvalidTopic,
    InvalidTopicConfig,
    InvalidUpdateVersion,
    ResourceNotFound,
    StorageError,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from tidelog.kernel.metadata import MetadataDelta, MetadataImage, TopicImage
from tidelog.kernel.metadata.acls import AclEntry, AclFilter
from tidelog.kernel.metadata.client_quotas import CLIENT_ID, USER
from tidelog.kernel.metadata.delegation_tokens import NewDelegationToken, secret_key_of, token_hmac
from tidelog.kernel.metadata.scram import CredentialKey, ScramUpsertion
from tidelog.kernel.seams.controller import TopicSpec
from tidelog.kernel.seams.features import GROUP_VERSION, FeatureUpdate, UpgradeType
from tidelog.kernel.testing.broker import running_broker
from tidelog.kernel.testing.loop_turns import holds_the_loop

ALICE = CredentialKey("alice", 1)
READ = AclEntry(2, "orders", 3, "User:alice", "*", 3, 3)
EVERYTHING = AclFilter(1, None, 1, None, None, 1, 1)
ENTITY = frozenset({(USER, "alice"), (CLIENT_ID, "app")})


class ControllerConformance:
    """The suite; `settings` are further keys of the broker."""

    controller_name: ClassVar[str]
    settings: ClassVar[dict[str, object]] = {}

    def __init_subclass__(cls, *, controller: str) -> None:
        super().__init_subclass__()
        cls.controller_name = controller

    @pytest.fixture
    async def broker(self) -> AsyncGenerator[Broker]:
        """Run a broker that has this controller."""
        settings = {"delegation.token.secret.key": "secret", **self.settings}
        async with running_broker({**settings, "controller": self.controller_name}) as broker:
            yield broker

    async def test_create_topics_returns_each_topic_or_why_there_is_none(self, broker: Broker) -> None:
        controller = broker.controller
        specs = [TopicSpec("t", 2, config={"flush.messages": "7"}), TopicSpec("t", 1), TopicSpec("a/b")]
        created, twice, misnamed = await controller.create_topics(specs)
        assert isinstance(created, TopicImage)
        assert isinstance(twice, TopicAlreadyExists)
        assert isinstance(misnamed, InvalidTopic)
        image, topic = broker.image.topics["t"], broker.topics.get("t")
        assert image.topic_id == topic.topic_id == created.topic_id
        assert [partition.is_leader for partition in topic.partitions] == [True, True]
        assert topic.config[keys.FLUSH_MESSAGES] == 7
        (again,) = await controller.create_topics([TopicSpec("t")])
        assert isinstance(again, TopicAlreadyExists)

    async def test_check_topic_and_check_partitions_change_nothing(self, broker: Broker) -> None:
        controller = broker.controller
        assert len(controller.check_topic(TopicSpec("t", 3)).partitions) == 3
        assert not broker.image.topics
        await controller.create_topics([TopicSpec("t", 1)])
        assert controller.check_partitions("t", 4) == 3
        assert len(broker.image.topics["t"].partitions) == 1
        with pytest.raises(TopicAlreadyExists):
            controller.check_topic(TopicSpec("t"))
        with pytest.raises(InvalidPartitions):
            controller.check_partitions("t", 1)

    async def test_create_partitions_adds_them_behind_those_that_are_there(self, broker: Broker) -> None:
        await broker.controller.create_topics([TopicSpec("t", 1), TopicSpec("u", 1)])
        first = broker.topics.get("t").partitions[0]
        results = await broker.controller.create_partitions([("t", 3), ("u", 1), ("v", 2)])
        assert results[0] is None
        assert isinstance(results[1], InvalidPartitions)
        assert isinstance(results[2], UnknownTopicOrPartition)
        partitions = broker.topics.get("t").partitions
        assert (len(partitions), partitions[0]) == (3, first)
        assert [len(topic.partitions) for topic in broker.image.topics.values()] == [3, 1]

    async def test_no_change_blocks_the_event_loop(self, broker: Broker) -> None:
        names = (f"topic-{number}" for number in itertools.count())
        assert not await holds_the_loop(lambda: broker.controller.create_topics([TopicSpec(next(names), 1)]))

    async def test_alter_topic_configs_replaces_settings_unless_it_only_validates(
        self, broker: Broker
    ) -> None:
        controller = broker.controller
        await controller.create_topics([TopicSpec("t", 1, config={"flush.messages": "7"})])
        change: list[tuple[str, Alter]] = [("t", lambda before: {**before, "flush.ms": "5"})]
        assert await controller.alter_topic_configs(change, validate_only=True) == [None]
        assert broker.topics.get("t").overrides == {"flush.messages": "7"}
        assert await controller.alter_topic_configs(change) == [None]
        assert broker.image.topics["t"].config == {"flush.messages": "7", "flush.ms": "5"}
        assert broker.topics.get("t").config[keys.FLUSH_MESSAGES] == 7
        unknown, invalid = await controller.alter_topic_configs(
            [("u", dict), ("t", lambda _: {"flush.ms": "soon"})]
        )
        assert isinstance(unknown, UnknownTopicOrPartition)
        assert isinstance(invalid, InvalidTopicConfig)

    async def test_delete_topics_frees_their_names(self, broker: Broker) -> None:
        (created,) = await broker.controller.create_topics([TopicSpec("t", 1)])
        deleted, unknown = await broker.controller.delete_topics(["t", "u"])
        assert deleted is None
        assert isinstance(unknown, UnknownTopicOrPartition)
        assert broker.topics.find("t") is None
        assert not broker.image.topics
        (again,) = await broker.controller.create_topics([TopicSpec("t", 1)])
        assert isinstance(created, TopicImage)
        assert isinstance(again, TopicImage)
        assert again.topic_id != created.topic_id

    async def test_alter_broker_config_is_in_force_unless_it_only_validates(self, broker: Broker) -> None:
        controller, key = broker.controller, keys.LOG_FLUSH_INTERVAL_MESSAGES
        before = broker.config[key]
        await controller.alter_broker_config(None, lambda _: {key.name: "7"}, validate_only=True)
        assert broker.config[key] == before
        await controller.alter_broker_config(None, lambda _: {key.name: "7"})
        await controller.alter_broker_config(broker.config[keys.NODE_ID], lambda _: {key.name: "9"})
        assert broker.config[key] == 9
        with pytest.raises(InvalidRequest):
            await controller.alter_broker_config(None, lambda _: {"node.id": "2"})
        with pytest.raises(InvalidConfig):
            await controller.alter_broker_config(None, lambda _: {"no.such.key": "2"})

    async def test_alter_resource_configs_of_a_group(self, broker: Broker) -> None:
        controller = broker.controller
        named, unnamed = await controller.alter_resource_configs(
            "group",
            [("g", lambda _: {"consumer.session.timeout.ms": "50000"}), ("", lambda _: {})],
        )
        assert named is None
        assert isinstance(unnamed, InvalidRequest)
        assert broker.resource_configs.settings("group", "g") == {"consumer.session.timeout.ms": "50000"}
        assert await controller.alter_resource_configs(
            "group", [("g", lambda _: {})], validate_only=True
        ) == [None]
        assert broker.resource_configs.names("group") == ["g"]

    async def test_alter_client_quotas_sets_and_removes_values(self, broker: Broker) -> None:
        controller, unknown = broker.controller, frozenset({("planet", "earth")})
        rates = {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
        refused = await controller.alter_client_quotas({ENTITY: rates, unknown: rates})
        assert [*refused] == [unknown]
        assert isinstance(refused[unknown], InvalidRequest)
        assert not await controller.alter_client_quotas({ENTITY: {"producer_byte_rate": None}})
        assert not await controller.alter_client_quotas(
            {ENTITY: {"consumer_byte_rate": 1.0}}, validate_only=True
        )
        assert dict(broker.image.quotas) == {ENTITY: {"consumer_byte_rate": 6.0}}

    async def test_alter_scram_credentials_stores_no_password(self, broker: Broker) -> None:
        upsertion = ScramUpsertion(ALICE, b"salt", b"salted password", 4096)
        assert await broker.controller.alter_scram_credentials((), [upsertion]) == {"alice": None}
        stored = broker.image.credentials[ALICE]
        assert (stored.salt, stored.iterations) == (b"salt", 4096)
        assert upsertion.salted_password not in (stored.stored_key, stored.server_key)
        assert await broker.controller.alter_scram_credentials([ALICE], ()) == {"alice": None}
        results = await broker.controller.alter_scram_credentials([ALICE], ())
        assert isinstance(results["alice"], ResourceNotFound)
        assert not broker.image.credentials

    async def test_update_features_changes_all_levels_or_none(self, broker: Broker) -> None:
        down = FeatureUpdate(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)
        unknown = FeatureUpdate("no.such.feature", 1, UpgradeType.UPGRADE)
        level = broker.features.level(GROUP_VERSION)
        with pytest.raises(InvalidUpdateVersion):
            await broker.controller.update_features([down, unknown])
        await broker.controller.update_features([down], validate_only=True)
        assert broker.features.level(GROUP_VERSION) == level > 0
        await broker.controller.update_features([down])
        assert broker.features.level(GROUP_VERSION) == 0

    async def test_allocate_producer_ids_returns_each_id_once(self, broker: Broker) -> None:
        blocks: list[range] = []

        async def allocate() -> None:
            blocks.append(await broker.controller.allocate_producer_ids(10))

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(allocate)
        ids = [each for block in blocks for each in block]
        assert len(set(ids)) == len(ids) == 50
        assert broker.image.next_producer_id > max(ids)

    async def test_what_cannot_be_made_durable_changes_nothing(
        self, broker: Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await broker.controller.create_topics([TopicSpec("t", 1)])
        before = broker.image

        async def refuse(delta: MetadataDelta) -> None:
            raise OSError(errno.ENOSPC, "no room")

        with monkeypatch.context() as patched:
            patched.setattr(broker.metadata, "commit", refuse)
            await self._refuse_everything(broker)
        assert_unchanged(broker, before)
        (created,) = await broker.controller.create_topics([TopicSpec("u", 1)])
        assert isinstance(created, TopicImage)

    async def _refuse_everything(self, broker: Broker) -> None:
        controller = broker.controller
        for results in (
            await controller.create_topics([TopicSpec("u", 1)]),
            await controller.create_partitions([("t", 2)]),
            await controller.alter_topic_configs([("t", lambda _: {"flush.ms": "5"})]),
            await controller.delete_topics(["t"]),
            await controller.alter_resource_configs(
                "group", [("g", lambda _: {"consumer.session.timeout.ms": "50000"})]
            ),
        ):
            assert [type(result) for result in results] == [StorageError]
        for change in (
            lambda: controller.alter_broker_config(None, lambda _: {"log.flush.interval.messages": "7"}),
            lambda: controller.alter_client_quotas({ENTITY: {"producer_byte_rate": 5.0}}),
            lambda: controller.alter_scram_credentials((), [ScramUpsertion(ALICE, b"s", b"p", 4096)]),
            lambda: controller.create_delegation_token(NewDelegationToken("User:a", "User:a")),
            lambda: controller.update_features([FeatureUpdate(GROUP_VERSION, 0, UpgradeType.SAFE_DOWNGRADE)]),
            lambda: controller.allocate_producer_ids(10),
        ):
            with pytest.raises(StorageError):
                await change()

    async def test_delegation_tokens_are_created_renewed_and_expired(self, broker: Broker) -> None:
        controller, secret = broker.controller, secret_key_of(broker.config) or ""
        new = NewDelegationToken("User:alice", "User:root", ("User:bob",), 3_600_000)
        token_id, token = await controller.create_delegation_token(new)
        assert dict(broker.image.tokens) == {token_id: token}
        assert (token.owner, token.requester, token.renewers) == new[:3]
        assert token.max_ms - token.issued_ms == 3_600_000
        assert token.expires_ms <= token.max_ms
        hmac = token_hmac(secret, token_id)
        for principal in ("User:bob", "User:alice"):
            expires_ms = await controller.expire_delegation_token(hmac, principal, 60_000)
            assert broker.image.tokens[token_id].expires_ms == expires_ms < token.max_ms
        assert await controller.renew_delegation_token(hmac, "User:bob", 2**62) == token.max_ms
        with pytest.raises(DelegationTokenOwnerMismatch):
            await controller.renew_delegation_token(hmac, "User:root", -1)
        with pytest.raises(DelegationTokenNotFound):
            await controller.expire_delegation_token(bytes(64), "User:alice", -1)
        with pytest.raises(InvalidPrincipalType):
            await controller.create_delegation_token(new._replace(renewers=("Group:g",)))
        await controller.remove_expired_delegation_tokens()
        assert list(broker.image.tokens) == [token_id]
        await controller.expire_delegation_token(hmac, "User:alice", -1)
        assert not broker.image.tokens

    async def test_create_acls_adds_each_entry_once_or_returns_why_not(self, broker: Broker) -> None:
        controller, write = broker.controller, READ._replace(operation=4, pattern_type=4)
        wrong = [
            READ._replace(resource_type=1),
            READ._replace(resource_name=""),
            READ._replace(resource_type=4),
            READ._replace(pattern_type=2),
            READ._replace(operation=1),
            READ._replace(permission_type=1),
            READ._replace(principal="alice"),
        ]
        results = await controller.create_acls([READ, *wrong, write, READ])
        assert [isinstance(each, InvalidRequest) for each in results] == [False, *[True] * 7, False, False]
        assert await controller.create_acls([READ]) == [None]
        assert sorted(broker.image.acls.values()) == [READ, write]
        assert {len(entry_id) for entry_id in broker.image.acls} == {16}

    async def test_delete_acls_returns_what_each_filter_matched(self, broker: Broker) -> None:
        controller = broker.controller
        prefix = READ._replace(resource_name="ord", pattern_type=4)
        anything = READ._replace(resource_name="*", permission_type=2)
        other = READ._replace(resource_name="other", host="192.0.2.1")
        await controller.create_acls([READ, prefix, anything, other])
        about_orders = EVERYTHING._replace(resource_name="orders", pattern_type=2)
        unknown = EVERYTHING._replace(operation=99)
        nothing = EVERYTHING._replace(principal="User:bob")
        deleted, refused, none, first = await controller.delete_acls(
            [about_orders, unknown, nothing, EVERYTHING._replace(pattern_type=3, resource_name="orders")]
        )
        assert not isinstance(deleted, BrokerError)
        assert sorted(deleted) == sorted([READ, prefix, anything])
        assert isinstance(refused, InvalidRequest)
        assert (none, first) == ([], [READ])
        assert [*broker.image.acls.values()] == [other]
        assert await controller.delete_acls([EVERYTHING]) == [[other]]
        assert not broker.image.acls


def assert_unchanged(broker: Broker, before: MetadataImage) -> None:
    """Assert that image and topics are as before."""
    assert broker.image is before
    assert [topic.name for topic in broker.topics] == [*before.topics]
    assert len(broker.topics.get("t").partitions) == 1
