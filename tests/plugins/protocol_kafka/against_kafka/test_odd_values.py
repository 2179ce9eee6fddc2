"""Odd values of every topic key: Apache Kafka and tidelog take the same ones, and describe them alike."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.deadlines import wait_until
from tidelog.plugins.protocol_kafka.messages import api as apis
from tidelog.plugins.protocol_kafka.messages.describe_configs import TOPIC_RESOURCE
from tidelog.plugins.protocol_kafka.messages.incremental_alter_configs import DELETE, SET

from .asking import Asker, message
from .test_resources import create_topic, entries

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST = range(1, 8)
NUMBERS = [
    *[
        "",
        "x",
        " 5 ",
        "+5",
        "5.0",
        "1e3",
        "0x10",
        "-0",
        "0",
        "1",
        "-1",
        "-2",
        "-3",
        "7",
        "00012",
        "1_000",
        "1,2",
    ],
    *["2147483647", "2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "1048576"],
    *["\uff15", "0.5", "1.0", "1.5", "-0.1", "Infinity", "1d", ".5f", "0x1p-1", "0.00001", "nan"],
]
ODD: dict[int, list[str]] = {
    BOOLEAN: ["", "x", "true", "TRUE", " true ", "1", "yes", "FALSE", "tru e"],
    STRING: [
        *["", "x", " producer ", "PRODUCER", "gzip", "GZIP", "zstd", "uncompressed", "none", "snappy", "lz4"],
        *["CreateTime", " LogAppendTime", "createtime"],
    ],
    INT: NUMBERS,
    SHORT: NUMBERS,
    LONG: NUMBERS,
    DOUBLE: NUMBERS,
    LIST: [
        *["", "x", " ", ",", "*", " * ", "delete", "compact", "delete,compact", "delete,delete", "DELETE"],
        *["compact, delete,compact", " delete , compact ", "delete,", "delete,x", "delete,,compact", "none"],
        *["0:1", "0:1,0:1", " 0:1 , 1:2", "0:1,", "*,*", "*,0:1", "0:x", "x:1", "0", "0:", "-1:1", "0:1:2"],
    ],
}
DIFFERENT = {
    "remote.storage.enable": "refused by Kafka, too, without a storage that is named at its start",
    "min.insync.replicas": "Kafka sets it for all brokers when it formats a directory",
}
"""Keys whose described value is not compared, and why."""


def set_value(asker: Asker, key: str, value: str | None) -> int:
    """The error of setting a key of the topic `odd`, or of removing it."""
    change = {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": "odd", "configs": [change]}
    fields: dict[str, Any] = {"resources": [resource], "validate_only": False}
    request = message(apis.INCREMENTAL_ALTER_CONFIGS.request_class, fields)
    (answer,) = asker.ask(apis.INCREMENTAL_ALTER_CONFIGS, 1, request).responses
    return int(answer.error_code)


def value_of(asker: Asker, key: str) -> str | None:
    """The value of a key as DescribeConfigs shows it."""
    value: str | None = entries(asker, TOPIC_RESOURCE, "odd")[key]["value"]
    return value


def same_value(asker: Asker, key: str, value: str | None) -> bool:
    """Whether a key is described with this value."""
    return value_of(asker, key) == value


@pytest.mark.long
def test_kafka_and_tidelog_take_the_same_odd_values_of_topic_keys(kafka: Asker, tidelog: Asker) -> None:
    for asker in (kafka, tidelog):
        create_topic(asker, "odd")
    keys = {name: entry["config_type"] for name, entry in entries(kafka, TOPIC_RESOURCE, "odd").items()}
    different: list[tuple[str, str, int, int]] = []
    for key, kind in keys.items():
        taken: list[str] = []
        for value in ODD[kind]:
            expected, found = set_value(kafka, key, value), set_value(tidelog, key, value)
            if found != expected:
                different.append((key, value, expected, found))
            elif not expected:
                taken.append(value)
        for value in taken if key not in DIFFERENT else ():
            for asker in (kafka, tidelog):
                set_value(asker, key, value)
            same = partial(same_value, kafka, key, value_of(tidelog, key))
            # Kafka applies a change soon after it is acknowledged.
            wait_until(same, f"{key} = {value!r} as described here")
        for asker in (kafka, tidelog):
            set_value(asker, key, None)
    assert not different
