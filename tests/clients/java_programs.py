"""Small Java programs, compiled against the client library of one release."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.deadlines import DEADLINE_S
from tests.peers import (
    NEWEST_KAFKA,
    QUICK_JVM_OPTIONS,
    compiled,
    find_java,
    find_kafka,
    resolve_jars,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).parent / "java"
# What a client logs is not what a test reads.
SLF4J = "org.slf4j:slf4j-nop:1.7.36"
# Its SCRAM decodes with a class that Java has had to version 10 only.
_WITHOUT_JAXB = "0.11."
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"
JVM_OPTIONS = ("-Xmx256M", *QUICK_JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")


def run_java(program: str, clients: str, arguments: Sequence[str], stdin: str = "") -> str:
    """What `program` of the folder `java` prints, run with kafka-clients of release `clients`.

    Raises PeerUnavailableError without a JDK or the jars, AssertionError with the stack trace when it fails.
    """
    return _run(java_command(program, clients, arguments), stdin)


def run_inside_kafka(program: str, arguments: Sequence[str], stdin: str = "") -> str:
    """Return what `program` prints, run with all classes of the newest Apache Kafka; raises as `run_java`."""
    return _run(command_inside_kafka(program, arguments), stdin)


def _run(command: Sequence[str], stdin: str) -> str:
    ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ended.returncode == 0, ended.stderr or ended.stdout
    return ended.stdout


def java_command(
    program: str, clients: str, arguments: Sequence[str], beside: Sequence[str] = ()
) -> list[str]:
    """The command line of a program, with further classes beside it; raises as `run_java`."""
    if clients == NEWEST_KAFKA:
        # Its client library is in Kafka's own jars, of which there is an archive.
        return command_inside_kafka(program, arguments, beside)
    java = find_java("the Java client")
    more = (_JAXB,) if clients.startswith(_WITHOUT_JAXB) else ()
    jars = resolve_jars(f"org.apache.kafka:kafka-clients:{clients}", SLF4J, *more)
    return _command(java, (), jars, (program, *beside), arguments)


def command_inside_kafka(program: str, arguments: Sequence[str], beside: Sequence[str] = ()) -> list[str]:
    """The command line of a program with all classes of the newest Apache Kafka; raises as `run_java`."""
    kafka = find_kafka()
    return _command(kafka.java, kafka.archive.options(), kafka.jars, (program, *beside), arguments)


def _command(
    java: str, options: Sequence[str], jars: Path, programs: Sequence[str], arguments: Sequence[str]
) -> list[str]:
    # The jars come first: an archive serves only what they are the beginning of.
    classes = f"{jars}/*:{compiled([SOURCES / f'{each}.java' for each in programs], jars)}"
    return [java, *JVM_OPTIONS, *options, "-cp", classes, programs[0], *arguments]
