"""Apache Kafka's jars and the programs in them."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import attrs

from tests.deadlines import DEADLINE_S

from .class_archive import ClassArchive
from .java import QUICK_JVM_OPTIONS, find_java
from .java_classes import compiled
from .maven import resolve_jars
from .tool_process import SOURCE, ToolProcess, ToolProcessEndedError, tool_process

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NEWEST_KAFKA = "4.4.0"
# The last line that still serves Produce and Fetch from version 0 and converts old message formats.
OLD_PROTOCOLS_KAFKA = "3.9.1"
_SLF4J_SIMPLE = "org.slf4j:slf4j-simple:1.7.36"
_COUNT_IN_STATIC_FIELDS = frozenset({"org.apache.kafka.tools.consumer.ConsoleConsumer"})
_QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"


@attrs.frozen
class KafkaDistribution:
    """One release of Apache Kafka, ready to run."""

    version: str
    jars: Path
    java: str

    @property
    def archive(self) -> ClassArchive:
        """Archive of the classes of a server, most of which its tools and clients load too."""
        return ClassArchive(self.java, self.jars)

    def command(self, main_class: str, args: Sequence[str], jvm_options: Sequence[str] = ()) -> list[str]:
        """The command line that runs `main_class` with all of the jars."""
        return [self.java, *jvm_options, _QUIET, "-cp", f"{self.jars}/*", main_class, *args]

    def run_tool(
        self, class_name: str, args: Sequence[str], *, stdin: str | None = None, timeout_s: float = DEADLINE_S
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's tools to its end: its output and exit status, whatever that is.

        `class_name` is the class behind a script of Kafka's `bin` folder, such as
        `org.apache.kafka.tools.TopicCommand`. Those of the newest release share a JVM if they can.
        Raises subprocess.TimeoutExpired after `timeout_s`.
        """
        words = (class_name, *args)
        if stdin is None and self._can_share_a_jvm(words):
            with contextlib.suppress(ToolProcessEndedError):
                return self._tool_process().run(words, timeout_s)
        return subprocess.run(
            self.command(class_name, args, ("-Xmx512M", *QUICK_JVM_OPTIONS, *self.archive.options())),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def _can_share_a_jvm(self, words: Sequence[str]) -> bool:
        plain = not any("\t" in word or "\n" in word for word in words)
        return self.version == NEWEST_KAFKA and plain and words[0] not in _COUNT_IN_STATIC_FIELDS

    def _tool_process(self) -> ToolProcess:
        options = ("-Xmx512M", *QUICK_JVM_OPTIONS, *self.archive.options(), _QUIET)
        # The jars come first: an archive serves only what they are the beginning of.
        classes = f"{self.jars}/*:{compiled([SOURCE], self.jars)}"
        return tool_process(self.java, *options, "-cp", classes, SOURCE.stem)


def find_kafka(version: str = NEWEST_KAFKA) -> KafkaDistribution:
    """Apache Kafka `version`, fetched from Maven Central unless it is in the cache.

    Raises PeerUnavailableError when Java, Maven or the network is missing.
    """
    java = find_java(f"Apache Kafka {version}", at_least=17 if version >= "4" else 11)
    jars = resolve_jars(
        f"org.apache.kafka:kafka_2.13:{version}", f"org.apache.kafka:kafka-tools:{version}", _SLF4J_SIMPLE
    )
    return KafkaDistribution(version, jars, java)


def run_kafka_tool(
    class_name: str, args: Sequence[str], *, stdin: str | None = None, timeout_s: float = DEADLINE_S
) -> subprocess.CompletedProcess[str]:
    """Run a tool of the newest Apache Kafka; see `KafkaDistribution.run_tool` and `find_kafka`."""
    return find_kafka().run_tool(class_name, args, stdin=stdin, timeout_s=timeout_s)
