"""What a configuration makes of the registration."""

from __future__ import annotations

import re
import sys

import pytest

from tests.conftest import only_cause
from tests.kernel.config.bundle import BUNDLE
from tests.tables import for_each
from tidelog.kernel.config.unsupported import UnsupportedKeys
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.testing.broker import running_broker
from tidelog.plugins.zookeeper import keys

UNSUPPORTED = UnsupportedKeys(keys.UNSUPPORTED)
# Those of Apache Kafka 3.9.
OF_KAFKA = [
    "zookeeper.connect",
    "zookeeper.session.timeout.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.set.acl",
    "zookeeper.max.in.flight.requests",
    "zookeeper.ssl.client.enable",
    "zookeeper.clientCnxnSocket",
    "zookeeper.ssl.keystore.location",
    "zookeeper.ssl.keystore.password",
    "zookeeper.ssl.keystore.type",
    "zookeeper.ssl.truststore.location",
    "zookeeper.ssl.truststore.password",
    "zookeeper.ssl.truststore.type",
    "zookeeper.ssl.protocol",
    "zookeeper.ssl.enabled.protocols",
    "zookeeper.ssl.cipher.suites",
    "zookeeper.ssl.endpoint.identification.algorithm",
    "zookeeper.ssl.crl.enable",
    "zookeeper.ssl.ocsp.enable",
    "zookeeper.metadata.migration.enable",
    "zookeeper.metadata.migration.min.batch.size",
]


@for_each("name", OF_KAFKA)
def test_keys_include_every_key_of_kafka(name: str) -> None:
    assert BUNDLE.find(name, "broker") or UNSUPPORTED.judge(name, "x", "broker")


@for_each(
    ("name", "value", "accepted"),
    [
        ("zookeeper.ssl.crl.enable", "true", False),
        ("zookeeper.ssl.ocsp.enable", "false", True),
        ("zookeeper.ssl.protocol", "TLSv1.2", True),
        ("zookeeper.metadata.migration.enable", "true", False),
        ("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty", True),
    ],
)
def test_keys_that_ask_for_what_is_missing_are_refused(name: str, value: str, accepted: bool) -> None:
    judged = UNSUPPORTED.judge(name, value, "broker")
    assert judged is not None
    assert judged.accepted is accepted


async def test_access_control_lists_need_a_certificate() -> None:
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a group around it
        async with running_broker({"zookeeper.connect": "127.0.0.1:1", "zookeeper.set.acl": "true"}):
            pytest.fail("it is ready")
    cause = only_cause(failed.value)
    assert isinstance(cause, ConfigError)
    assert "set zookeeper.ssl.client.enable = true and zookeeper.ssl.keystore.location" in str(cause)


@for_each(
    ("settings", "reason"),
    [
        ({"truststore.location": "/no/such"}, r"zookeeper\.ssl\.\*: /no/such cannot be read"),
        ({"keystore.location": __file__}, "has no private key|opens with this password"),
        ({"cipher.suites": "TLS_NO_SUCH"}, "'TLS_NO_SUCH', which is no cipher suite"),
    ],
)
async def test_stores_that_cannot_be_used_end_the_start(settings: dict[str, str], reason: str) -> None:
    named = {f"zookeeper.ssl.{name}": value for name, value in settings.items()}
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a group around it
        async with running_broker(
            {"zookeeper.connect": "127.0.0.1:1", "zookeeper.ssl.client.enable": "true", **named}
        ):
            pytest.fail("it is ready")
    cause = only_cause(failed.value)
    assert isinstance(cause, ConfigError)
    assert re.search(reason, str(cause))


async def test_registration_without_kazoo_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("kazoo_client", "kazoo_requests"):
        monkeypatch.delitem(sys.modules, f"tidelog.plugins.zookeeper.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "kazoo", None)
    with pytest.raises(BaseException) as failed:  # noqa: PT011 - a group around it
        async with running_broker({"zookeeper.connect": "zoo:2181"}):
            pytest.fail("it is ready")
    cause = only_cause(failed.value)
    assert isinstance(cause, ConfigError)
    assert "pip install 'tidelog[zookeeper]'" in str(cause)


async def test_registration_is_off_by_default() -> None:
    async with running_broker() as broker:
        assert not [name for name in broker.tasks.statistics() if "ZooKeeper" in name]
