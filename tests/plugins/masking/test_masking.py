"""The interceptor `masking`, as clients meet it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping

import pytest

from tests.plugins.protocol_kafka.apis.client import PEER, Client
from tests.plugins.protocol_kafka.apis.topics import new_topic
from tests.plugins.protocol_kafka.interception.produced import TOPIC, send, values
from tests.plugins.protocol_kafka.interception.test_fetching import append, contents, fetch
from tests.tables import for_each
from tidelog.kernel.errors import ConfigError
from tidelog.kernel.seams.requests import Principal
from tidelog.kernel.testing import make_batch
from tidelog.kernel.testing.broker import new_broker, running_broker
from tidelog.plugins.masking.fields import FieldMask, Unreadable, hashing, removing, replacing
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode

TABLE = {"interceptors.pii.type": "masking", "interceptors.pii.topics.regex": TOPIC}
ORDER = {"id": 7, "customer": {"email": "a@b.c", "name": "x"}, "items": [{"card": "1"}, {"card": "2"}]}
DEEP = b"[" * 200_000 + b"]" * 200_000

PATHS = [
    ("id", {"id"}),
    ("customer.email", {"customer.email"}),
    ("items.card", {"items.0.card", "items.1.card"}),
    ("*.email", {"customer.email"}),
    ("*.card", {"items.0.card", "items.1.card"}),
    ("customer.*", {"customer.email", "customer.name"}),
    ("customer", {"customer"}),
    ("none", set[str]()),
    ("id.none", set[str]()),
    ("*.*.*", set[str]()),
]


def flat(document: object, path: str = "") -> Mapping[str, object]:
    """Path → value of a document."""
    if isinstance(document, dict):
        parts = document.items()
    elif isinstance(document, list):
        parts = {str(index): each for index, each in enumerate(document)}.items()
    else:
        return {path[1:]: document}
    return {key: value for name, each in parts for key, value in flat(each, f"{path}.{name}").items()}


@for_each(("path", "masked"), PATHS)
def test_field_mask_masks_what_is_at_a_path_and_nothing_else(path: str, masked: set[str]) -> None:
    value = json.dumps(ORDER).encode()
    found = FieldMask([path], replacing("***")).apply(value)
    if not masked:
        assert found is value
        return
    before, after = flat(ORDER), flat(json.loads(found))
    assert {key for key, each in after.items() if each == "***"} == masked
    assert all(after[key] == each for key, each in before.items() if key in after and after[key] != "***")


def test_removing_and_hashing_masks() -> None:
    value = json.dumps(ORDER).encode()
    assert b"card" not in FieldMask(["items.card"], removing).apply(value)
    hashed = FieldMask(["id", "customer.email"], hashing(b"s")).apply(value)
    again = FieldMask(["id", "customer.email"], hashing(b"s")).apply(value)
    other = FieldMask(["id", "customer.email"], hashing(b"t")).apply(value)
    assert hashed == again != other
    assert b"a@b.c" not in hashed


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff\xfe", b"{", b"nul", DEEP, b'{"a":"\\ud800","id":1}', json.dumps(ORDER).encode("utf-16")],
)
def test_field_mask_reads_no_value_that_is_not_json_in_utf_8(value: bytes) -> None:
    with pytest.raises(Unreadable):
        FieldMask(["id"], replacing("***")).apply(value)


@pytest.mark.parametrize(("rule", "seen"), [("mask", [b"***"]), ("hide", []), ("show", [b"no json"])])
async def test_values_that_are_not_json_follow_a_rule(rule: str, seen: list[bytes]) -> None:
    settings = {**TABLE, "interceptors.pii.masking.fields": "id", "interceptors.pii.masking.unreadable": rule}
    async with running_broker(settings) as broker:
        await new_topic(broker)
        append(broker, make_batch([b"no json", b'{"id":1}', None]))
        found = [value for _, value in contents(await fetch(Client(broker)))]
        assert found == [*seen, b'{"id":"***"}', None]


async def test_fetches_are_masked_but_not_for_excepted_principals() -> None:
    settings = {
        **TABLE,
        "interceptors.pii.masking.fields": "id",
        "interceptors.pii.masking.except.principals": "User:auditor",
    }
    async with running_broker(settings) as broker:
        await new_topic(broker)
        assert (await send(broker, make_batch([b'{"id":1}']))).error_code == 0
        assert values(broker) == [b'{"id":1}']
        assert contents(await fetch(Client(broker))) == [(0, b'{"id":"***"}')]
        auditor = Client(broker, PEER._replace(principal=Principal("User", "auditor")))
        assert contents(await fetch(auditor)) == [(0, b'{"id":1}')]


async def test_appends_are_masked_for_good() -> None:
    settings = {
        **TABLE,
        "interceptors.pii.masking.when": "append",
        "interceptors.pii.masking.fields": "id",
        "interceptors.pii.masking.unreadable": "hide",
    }
    async with running_broker(settings) as broker:
        await new_topic(broker)
        assert (await send(broker, make_batch([b'{"id":1}']))).error_code == 0
        refused = await send(broker, make_batch([b'{"id":1}', b"no json"]))
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_RECORD,
            "record 1: the value is not JSON, so it cannot be masked",
        )
        assert values(broker) == [b'{"id":"***"}']


@for_each(
    ("settings", "problem"),
    [
        ({}, "masks nothing: set masking.fields or masking.headers"),
        ({"masking.fields": "a", "masking.how": "hash"}, "hashes without a secret: set masking.secret"),
    ],
)
def test_a_table_that_cannot_be_is_refused(settings: Mapping[str, str], problem: str) -> None:
    full = {f"interceptors.pii.{key}": value for key, value in settings.items()}
    with pytest.raises(ConfigError, match=problem):
        new_broker({**TABLE, **full})


def test_work_and_memory_are_bounded_by_the_value() -> None:
    value = json.dumps({"a": [[[{"b": index} for index in range(10)]] * 10] * 10}).encode()
    tracemalloc.start()
    FieldMask(["*.*.*.*.b", "a.b", "*.b"], replacing("***")).apply(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * len(value)
