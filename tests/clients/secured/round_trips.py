"""Round trips of clients over each way in: produce, and read as a member of a group.

Each is a function of all ways in, which are tried at once; it returns the values that were read over each, or
what went wrong.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from tests.clients.go_programs import run_go
from tests.clients.java_programs import java_command
from tests.clients.kcat import kcat_command
from tests.clients.node_programs import run_node
from tests.deadlines import DEADLINE_S
from tests.secured_brokers import USER
from tests.tls_certificates import written

from .access import COUNT, VALUES, Access

Outcomes: TypeAlias = dict[str, list[str] | str]
RoundTrips: TypeAlias = Callable[[Sequence[Access]], Outcomes]

_TOKEN_LIFETIME_S: Final = 300.0


def _at_once(one: Callable[[Access], list[str]], accesses: Sequence[Access]) -> Outcomes:
    """Try each in a thread of its own."""

    def outcome(access: Access) -> list[str] | str:
        try:
            return one(access)
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(len(accesses)) as pool:
        return dict(zip([each.name for each in accesses], pool.map(outcome, accesses), strict=True))


def _topic(client: str, access: Access) -> str:
    return f"{client}-{access.name}"


def confluent_kafka(accesses: Sequence[Access]) -> Outcomes:
    """librdkafka in a Python program."""
    return _at_once(_confluent_kafka, accesses)


def _confluent_kafka(access: Access) -> list[str]:
    topic = _topic("confluent-kafka", access)
    settings: dict[str, Any] = access.librdkafka()
    if access.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _config: (access.secret, time.time() + _TOKEN_LIFETIME_S)
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read: list[str] = []
    while len(read) < COUNT:
        for message in consumer.consume(COUNT, 10):
            assert message.error() is None
            read.append((message.value() or b"").decode())
    consumer.close()
    return read


class _AiokafkaToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] theirs returns None
        return self._token


class _KafkaPythonToken(KafkaPythonTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] theirs returns None
        return self._token


def _python_options(access: Access, token: object) -> dict[str, Any]:
    """The options that aiokafka and kafka-python have in common."""
    options: dict[str, Any] = {"bootstrap_servers": access.bootstrap, "security_protocol": access.protocol}
    if access.has_tls:
        options["ssl_context"] = _context(access)
    if access.mechanism == "OAUTHBEARER":
        options |= {"sasl_mechanism": access.mechanism, "sasl_oauth_token_provider": token}
    elif access.mechanism:
        login = {"sasl_plain_username": USER, "sasl_plain_password": access.secret}
        options |= {"sasl_mechanism": access.mechanism, **login}
    return options


def _context(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.authority)
    if access.protocol == "SSL":
        context.load_cert_chain(access.certificate)
    return context


def aiokafka(accesses: Sequence[Access]) -> Outcomes:
    """A client of asyncio."""

    async def main() -> list[list[str] | BaseException]:
        return await asyncio.gather(*map(_aiokafka, accesses), return_exceptions=True)

    found = [each if isinstance(each, list) else repr(each) for each in asyncio.run(main())]
    return dict(zip([each.name for each in accesses], found, strict=True))


async def _aiokafka(access: Access) -> list[str]:
    topic = _topic("aiokafka", access)
    options = _python_options(access, _AiokafkaToken(access.secret))
    async with AIOKafkaProducer(**options) as producer:
        for value in VALUES:
            await producer.send(topic, value.encode())
        await producer.flush()
    read: list[str] = []
    consumer = AIOKafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **options)
    async with consumer:
        async for record in consumer:
            read.append((record.value or b"").decode())
            if len(read) == COUNT:
                break
    return read


def kafka_python(accesses: Sequence[Access]) -> Outcomes:
    """A client of threads in Python."""
    return _at_once(_kafka_python, accesses)


def _kafka_python(access: Access) -> list[str]:
    topic = _topic("kafka-python", access)
    options = _python_options(access, _KafkaPythonToken(access.secret))
    producer = KafkaProducer(**options)
    for value in VALUES:
        producer.send(topic, value.encode())
    producer.flush(DEADLINE_S)
    producer.close()
    consumer = KafkaConsumer(topic, group_id=topic, auto_offset_reset="earliest", **options)
    read = [record.value.decode() for _, record in zip(VALUES, consumer, strict=False)]
    consumer.close()
    return read


def kcat(accesses: Sequence[Access]) -> Outcomes:
    """kcat, with a file of settings, so that no secret is among its arguments."""
    return _at_once(_kcat, accesses)


def _kcat(access: Access) -> list[str]:
    topic = _topic("kcat", access)
    lines = "".join(f"{name}={value}\n" for name, value in access.librdkafka().items())
    settings = ["-F", written(access.folder / f"{topic}.config", lines.encode())]

    def run(*arguments: str, stdin: str = "") -> str:
        command = [*kcat_command(access.bootstrap), *settings, *arguments]
        ended = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=DEADLINE_S)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    run("-P", "-t", topic, stdin="\n".join(VALUES))
    reset = ("-X", "auto.offset.reset=earliest")
    return run("-G", topic, *reset, "-c", str(COUNT), "-q", topic).splitlines()


def _of_lines(printed: str) -> Outcomes:
    """What a program has printed: lines of a topic, "read" and a value; or a topic, "error" and its text."""
    outcomes: dict[str, list[str] | str] = {}
    for line in printed.splitlines():
        topic, kind, text = line.split("\t", 2)
        name = topic.partition("-")[2]
        if kind == "error":
            outcomes[name] = text
            continue
        read = outcomes.setdefault(name, [])
        if isinstance(read, list):
            read.append(text)
    return outcomes


def java(release: str) -> RoundTrips:
    """Kafka's own client of one release; one process tries all."""

    def run(accesses: Sequence[Access]) -> Outcomes:
        arguments: list[str] = []
        for access in accesses:
            topic = _topic(f"java{release}", access)
            path = access.folder / f"{topic}.properties"
            arguments += [topic, written(path, access.java().encode())]
        # What shows a token was not there yet before there were any.
        beside = ["TokenOfJaas"] if any(each.mechanism == "OAUTHBEARER" for each in accesses) else []
        command = java_command("SecuredGroup", release, arguments, beside)
        ended = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert ended.returncode == 0, ended.stderr or ended.stdout
        return _of_lines(ended.stdout)

    return run


def go(program: str, *modules: str) -> RoundTrips:
    """A Go program; one process tries all."""
    return lambda accesses: _of_lines(
        run_go(f"secured_{program}", modules[0], [str(COUNT)], _lines(program, accesses), modules[1:])
    )


def kafkajs(accesses: Sequence[Access]) -> Outcomes:
    """A Node program."""
    return _of_lines(
        run_node("secured_kafkajs.js", "kafkajs@2.2.4", [str(COUNT)], _lines("kafkajs", accesses))
    )


def _lines(client: str, accesses: Sequence[Access]) -> str:
    return "".join(f"{each.line(_topic(client, each))}\n" for each in accesses)


CLIENTS: Final[Mapping[str, RoundTrips]] = {
    "confluent-kafka": confluent_kafka,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "kcat": kcat,
    **{f"kafka-clients {release}": java(release) for release in ("4.4.0", "2.8.2", "1.1.1", "0.11.0.3")},
    "franz-go": go("franz", "github.com/twmb/franz-go/pkg/kgo@v1.22.2"),
    "sarama": go("sarama", "github.com/IBM/sarama@v1.61.1", "github.com/xdg-go/scram@v1.1.2"),
    "kafkajs": kafkajs,
}
