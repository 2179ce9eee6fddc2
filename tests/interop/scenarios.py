"""Table of scenarios: what a client is asked to do, what is there before, and what has to be there after."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from tests.interop.drivers.python.driving import COUNT, HEADERS, MEGABYTE, PASSED, key, timestamp_ms, value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .reference import Place, Reference

    Step = Callable[[Reference, Place], None]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS: Final = [[number, key(number).decode(), value(number).decode()] for number in range(COUNT)]
READ_COMMITTED: Final = {"isolation.level": "read_committed"}


def nothing(reference: Reference, place: Place) -> None:
    """Leave everything as it is."""


@attrs.frozen
class Scenario:
    """An action with its argument; `section` is the table of the page that it is in.

    The driver's answer has to contain `answer`, or an error whose text contains one of `refusals`, written
    without anything but small letters and digits. What a
    tool printed has to match the regular expression `printed`.
    """

    section: str
    name: str
    action: str
    prepare: Step
    answer: Mapping[str, Any] = attrs.field(factory=dict[str, Any])
    check: Step = nothing
    argument: str = ""
    refusals: tuple[str, ...] = ()
    printed: str = ""

    def fault_of(self, answer: Mapping[str, Any]) -> str:
        """Return what is wrong with an answer, "" if nothing is."""
        if self.refusals:
            refused = re.sub("[^a-z0-9]", "", str(answer.get("error", "")).lower())
            return "" if any(each in refused for each in self.refusals) else f"not refused: {answer}"
        if "error" in answer:
            return str(answer["error"])
        if "unknown" in answer:
            return "the driver does not know this action"
        if not re.search(self.printed, str(answer.get("printed", "")), re.MULTILINE):
            return f"printed {answer.get('printed')}"
        wrong = {name: answer.get(name) for name in self.answer if answer.get(name) != self.answer[name]}
        return f"answered {wrong}" if wrong else ""


def empty_topic(partitions: int = 1, **config: str) -> Step:
    """Return the step that creates the topic."""
    renamed = {name.replace("_", "."): value for name, value in config.items()}
    return lambda reference, place: reference.create_topic(place.topic, partitions, renamed)


def filled(partitions: int = 1, committed: int | None = None, **settings: str) -> Step:
    """Return the step that creates the topic with the common records, and the group if it has offsets."""

    def prepare(reference: Reference, place: Place) -> None:
        reference.create_topic(place.topic, partitions)
        for partition in range(partitions):
            renamed = {name.replace("_", "."): value for name, value in settings.items()}
            reference.produce(place.topic, renamed, partition, COUNT // partitions)
        if committed is not None:
            reference.commit(place.group, place.topic, committed, partitions)

    return prepare


def _one(value: bytes | None, key: bytes | None, **more: Any) -> Step:
    """Return the step that creates the topic with one record."""

    def prepare(reference: Reference, place: Place) -> None:
        reference.create_topic(place.topic)
        reference.produce_one(place.topic, value, key, **more)

    return prepare


def _nulls(reference: Reference, place: Place) -> None:
    reference.create_topic(place.topic)
    reference.produce_one(place.topic, b"value", None)
    reference.produce_one(place.topic, None, b"key")


def _transactions(reference: Reference, place: Place) -> None:
    reference.create_topic(place.topic)
    reference.produce_transactions(place.topic, place.group)


def _equal(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what} {found!r}, expected {expected!r}"


def _created(reference: Reference, place: Place) -> None:
    _equal("partitions", reference.wait_partitions(place.topic, 3), 3)
    _equal("max.message.bytes", reference.config(place.topic, "max.message.bytes"), "500000")


def _has_records(timestamps: bool = False, settings: Mapping[str, str] | None = None) -> Step:
    """Return the check that the topic has the common records and nothing else."""

    def check(reference: Reference, place: Place) -> None:
        found = reference.records(place.topic, COUNT, settings)
        rows = [(each.key(), each.value()) for each in found]
        _equal("records", rows, [(key(number), value(number)) for number in range(COUNT)])
        if timestamps:
            stamped = [each.timestamp()[1] for each in found]
            _equal("timestamps", stamped, [timestamp_ms(number) for number in range(COUNT)])

    return check


def _has_one(value: bytes | None, key: bytes | None) -> Step:
    """Return the check that the topic has this record and nothing else."""

    def check(reference: Reference, place: Place) -> None:
        found = reference.records(place.topic, 1)
        _equal("number of records", len(found), 1)
        _equal("key", found[0].key(), key)
        assert found[0].value() == value, f"the value differs: {str(found[0].value())[:80]}"

    return check


def _has_headers(reference: Reference, place: Place) -> None:
    _equal("headers", reference.records(place.topic, 1)[0].headers(), HEADERS)


def _committed(*offsets: int) -> Step:
    """Return the check of the group's offset in each partition."""
    return lambda reference, place: _equal(
        "committed", reference.committed(place.group, place.topic, len(offsets)), list(offsets)
    )


def _aborted(reference: Reference, place: Place) -> None:
    _equal("committed records", len(reference.records(place.topic, 0, READ_COMMITTED)), 0)
    all_of_them = reference.records(place.topic, COUNT, {"isolation.level": "read_uncommitted"})
    _equal("all records", len(all_of_them), COUNT)


def _sent_offsets(reference: Reference, place: Place) -> None:
    _has_records(settings=READ_COMMITTED)(reference, place)
    _equal("committed", reference.committed(place.group, place.topic), [PASSED])


def _no_group(reference: Reference, place: Place) -> None:
    assert not reference.has_group(place.group), "the group is still listed"


def _admin() -> list[Scenario]:
    section = "Admin"
    return [
        Scenario(section, "create topic", "create-topic", nothing, check=_created),
        Scenario(
            section,
            "create existing topic",
            "create-topic",
            empty_topic(),
            refusals=("topicalreadyexists", "topicexists", "alreadyexists", "errorcode36", "error36"),
        ),
        Scenario(section, "list topics", "list-topics", empty_topic(), {"listed": True}),
        Scenario(section, "describe topic", "describe-topic", empty_topic(3), {"partitions": 3}),
        Scenario(section, "describe cluster", "describe-cluster", nothing, {"brokers": ["BROKER"]}),
        Scenario(
            section,
            "add partitions",
            "add-partitions",
            empty_topic(),
            check=lambda reference, place: _equal("partitions", reference.wait_partitions(place.topic, 4), 4),
        ),
        Scenario(
            section,
            "describe configs",
            "describe-configs",
            empty_topic(retention_ms="123456"),
            {"retention.ms": "123456"},
        ),
        Scenario(
            section,
            "alter configs",
            "alter-configs",
            empty_topic(),
            check=lambda reference, place: _equal(
                "retention.ms", reference.config(place.topic, "retention.ms"), "654321"
            ),
        ),
        Scenario(section, "list offsets", "list-offsets", filled(), {"earliest": 0, "latest": COUNT}),
        Scenario(
            section,
            "delete records",
            "delete-records",
            filled(),
            {"low": 4},
            lambda reference, place: _equal("offsets", reference.ends(place.topic), (4, COUNT)),
        ),
        Scenario(
            section,
            "delete topic",
            "delete-topic",
            empty_topic(),
            check=lambda reference, place: _equal("partitions", reference.wait_partitions(place.topic, 0), 0),
        ),
        Scenario(
            section,
            "describe ACLs",
            "describe-acls",
            nothing,
            refusals=("securitydisabled", "noauthorizer", "errorcode54", "error54"),
        ),
    ]


def _admin_of_groups() -> list[Scenario]:
    section = "Groups, admin"
    group = filled(committed=PASSED)
    return [
        Scenario(section, "list groups", "list-groups", group, {"listed": True}),
        Scenario(section, "describe group", "describe-group", group, {"state": "empty", "members": 0}),
        Scenario(section, "list group offsets", "list-group-offsets", group, {"offset": PASSED}),
        Scenario(section, "delete group", "delete-group", group, check=_no_group),
    ]


def _produce() -> list[Scenario]:
    section = "Produce"
    large = b"m" * MEGABYTE
    return [
        *(
            Scenario(section, codec, "produce", empty_topic(), check=_has_records(), argument=codec)
            for codec in CODECS
        ),
        *(
            Scenario(section, f"acks {acks}", "acks", empty_topic(), check=_has_records(), argument=acks)
            for acks in ("0", "1", "-1")
        ),
        Scenario(section, "idempotent", "idempotent", empty_topic(), check=_has_records()),
        Scenario(section, "timestamps", "timestamps", empty_topic(), check=_has_records(timestamps=True)),
        Scenario(section, "headers", "headers", empty_topic(), check=_has_headers),
        Scenario(section, "null key", "null-key", empty_topic(), check=_has_one(b"value", None)),
        Scenario(section, "null value", "null-value", empty_topic(), check=_has_one(None, b"key")),
        Scenario(section, "1 MB", "megabyte", empty_topic(), check=_has_one(large, b"key")),
        Scenario(
            section,
            "too large",
            "too-large",
            empty_topic(max_message_bytes="1000"),
            refusals=("messagesizetoolarge", "toolarge", "msgsizetoolarge", "largerthan", "error10"),
        ),
        Scenario(section, "missing topic", "auto-create", nothing, check=_has_one(b"value", b"key")),
    ]


def _consume() -> list[Scenario]:
    section = "Consume"
    return [
        *(
            Scenario(
                section, codec, "read", filled(compression_type=codec), {"records": RECORDS}, argument=codec
            )
            for codec in CODECS
        ),
        Scenario(
            section,
            "timestamps",
            "read-timestamps",
            filled(),
            {"timestamps": [timestamp_ms(number) for number in range(COUNT)]},
        ),
        Scenario(
            section,
            "headers",
            "read-headers",
            _one(b"value", b"key", headers=HEADERS),
            {"headers": [[name, content.decode()] for name, content in HEADERS]},
        ),
        Scenario(section, "nulls", "read-nulls", _nulls, {"records": [[0, None, "value"], [1, "key", None]]}),
        Scenario(section, "1 MB", "read-megabyte", _one(b"m" * MEGABYTE, b"key"), {"sizes": [MEGABYTE]}),
        Scenario(section, "seek to offset", "seek-offset", filled(), {"offsets": [7, 8, 9]}),
        Scenario(section, "seek to ends", "seek-end", filled(), {"ends": [0, COUNT]}),
        Scenario(section, "seek by time", "seek-time", filled(), {"offset": 5}),
        Scenario(
            section,
            "read committed",
            "read-committed",
            _transactions,
            {"keys": [key(number).decode() for number in range(5, 10)]},
        ),
    ]


def _groups() -> list[Scenario]:
    section = "Groups"
    whole, both = {"count": COUNT}, {"assigned": [1, 1]}
    return [
        Scenario(section, "read and commit", "group-read", filled(2), whole, _committed(5, 5)),
        Scenario(section, "resume", "group-resume", filled(2, committed=3), {"count": 4}, _committed(5, 5)),
        Scenario(section, "two members", "group-share", empty_topic(2), both),
        Scenario(section, "commit an offset", "commit", filled(), {"committed": 4}, _committed(4)),
        Scenario(section, "static member", "static-member", filled(2), whole, _committed(5, 5)),
        Scenario(section, "cooperative", "cooperative", empty_topic(2), both),
        Scenario(section, "consumer protocol", "consumer-protocol", filled(2), whole, _committed(5, 5)),
    ]


def _transactional() -> list[Scenario]:
    section = "Transactions"
    fenced = ("fenced", "producerepoch", "oldepoch")
    return [
        Scenario(section, "commit", "txn-commit", empty_topic(), check=_has_records(settings=READ_COMMITTED)),
        Scenario(section, "abort", "txn-abort", empty_topic(), check=_aborted),
        Scenario(section, "send offsets", "txn-offsets", empty_topic(), check=_sent_offsets),
        Scenario(section, "fence", "txn-fence", empty_topic(), refusals=fenced),
    ]


SCENARIOS: Final[tuple[Scenario, ...]] = (
    *_admin(),
    *_produce(),
    *_consume(),
    *_groups(),
    *_admin_of_groups(),
    *_transactional(),
)
