"""Kafka's own kind of configuration file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.kernel.config.bundle import BUNDLE
from tests.tables import for_each
from tidelog.kernel.config import Config, keys, read_sources
from tidelog.kernel.config.sources.properties_file import read_properties


def settings(text: str) -> dict[str, str]:
    problems: list[str] = []
    found = read_properties(text, "server.properties", problems)
    assert problems == []
    return {setting.name: setting.text for setting in found}


FORMS = [
    ("a=b", {"a": "b"}),
    ("a = b", {"a": "b"}),
    ("a: b", {"a": "b"}),
    ("a b c", {"a": "b c"}),
    ("a", {"a": ""}),
    ("a=", {"a": ""}),
    ("  a=b  ", {"a": "b  "}),
    ("a=b=c:d", {"a": "b=c:d"}),
    ("# x=1\n! y=2\n\n   \na=b", {"a": "b"}),
    ("a=b\r\nc=d\re=f", {"a": "b", "c": "d", "e": "f"}),
    ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
    ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
    ("a=x\\", {"a": "x"}),
    ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
    ("a=\\t\\n\\u00e9\\q", {"a": "\t\n\u00e9q"}),
    ("a=b\\\n# not a comment", {"a": "b# not a comment"}),
    ("", {}),
]


@for_each(("text", "expected"), FORMS)
def test_read_properties_parses_the_java_properties_format(text: str, expected: dict[str, str]) -> None:
    assert settings(text) == expected


def test_read_properties_sets_the_origin_to_the_first_line_of_a_setting() -> None:
    found = read_properties("# first\na=1,\\\n2\nb=3\n", "server.properties", [])
    assert [str(setting.origin) for setting in found] == ["server.properties:2", "server.properties:4"]


def test_read_properties_reports_a_duplicate_key() -> None:
    problems: list[str] = []
    read_properties("a=1\nb=2\na=3\n", "server.properties", problems)
    assert problems == ["a (server.properties:3): is set twice, first in line 1"]


def store(name: str, value: str) -> str:
    """A line as java.util.Properties would write it."""
    escaped = {
        "\\": "\\\\",
        "\t": "\\t",
        "\n": "\\n",
        "\r": "\\r",
        "\f": "\\f",
        "=": "\\=",
        ":": "\\:",
        "#": "\\#",
        "!": "\\!",
    }

    def escape(text: str, *, all_spaces: bool) -> str:
        body = "".join(
            escaped.get(char, char if " " <= char <= "~" else f"\\u{ord(char):04x}") for char in text
        )
        leading = len(text) - len(text.lstrip(" "))
        return body.replace(" ", "\\ ") if all_spaces else "\\ " * leading + body[leading:]

    return f"{escape(name, all_spaces=True)}={escape(value, all_spaces=False)}\n"


plane_zero = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])


@given(st.dictionaries(st.text(plane_zero, min_size=1), st.text(plane_zero)))
def test_read_properties_reads_back_what_java_util_properties_writes(values: dict[str, str]) -> None:
    assert settings("".join(store(name, value) for name, value in values.items())) == values


@given(st.text())
def test_read_properties_never_raises_for_any_text(text: str) -> None:
    read_properties(text, "server.properties", [])


STOCK = """\
# The keys of the server.properties that Apache Kafka 4 ships, but those of parts that are missing here.
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def test_read_properties_of_kafkas_server_properties_warns_of_keys_without_effect(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(STOCK)
    config = Config(read_sources(file), BUNDLE)
    assert [listener.name for listener in config.served_listeners()] == ["PLAINTEXT"]
    assert config[keys.NODE_ID] == 1
    assert f"num.io.threads ({file}:11) has no meaning here: one event loop serves every connection" in str(
        config.warnings
    )
    assert len(config.warnings) == 11
