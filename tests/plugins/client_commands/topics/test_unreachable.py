"""`tidelog topics` when there is no broker, or none that answers: plain words, in time, exit code 1."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import partial

import pytest
import trio

from tests.deadlines import DEADLINE_S
from tests.peers import free_port
from tests.plugins.client.driven import Part, after_versions, honest, receive_request, saying, server
from tests.plugins.client.fakes import ALL_VERSIONS, FakeBroker, metadata_message
from tests.plugins.client_commands.topics.running import topics
from tidelog.plugins.protocol_kafka.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tidelog.plugins.protocol_kafka.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from tidelog.plugins.protocol_kafka.messages.errors import ErrorCode


def test_create_command_explains_how_to_start_a_broker_when_none_answers() -> None:
    address = f"127.0.0.1:{free_port()}"
    done = topics(address, "create", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"tidelog: No broker answers at {address} (connection refused). Is it running? `tidelog serve` "
        "starts one; --bootstrap-server names another address.\n"
    )


async def run(address: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command while the server plays its part."""
    return await trio.to_thread.run_sync(partial(topics, address, command, *arguments))


BAD_SERVERS: dict[str, tuple[Part, str]] = {
    "an http server": (
        saying(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "does not speak Kafka's protocol (a response of 1213486160 bytes is announced, ",
    ),
    "silence": (saying(b""), "No broker answers at "),
    "silence later": (after_versions(saying(b"")), "--timeout SECONDS lets it take longer."),
}


@pytest.mark.parametrize("case", BAD_SERVERS)
async def test_list_command_reports_a_peer_that_is_no_broker_within_its_timeout(case: str) -> None:
    part, words = BAD_SERVERS[case]
    with trio.fail_after(DEADLINE_S):
        async with server(part) as address:
            done = await run(address, "list", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert done.stderr.startswith("tidelog: ")
    assert done.stderr.count("\n") == 1


def refusing_creation(code: ErrorCode) -> FakeBroker:
    result = CreatableTopicResult(name="x", error_code=code, error_message=None)
    return FakeBroker({"CreateTopics": CreateTopicsResponse(topics=[result])})


def refusing_deletion(code: ErrorCode) -> FakeBroker:
    result = DeletableTopicResult(name="x", error_code=code)
    return FakeBroker({"DeleteTopics": DeleteTopicsResponse(responses=[result])})


def without_create_topics() -> FakeBroker:
    return FakeBroker(ranges={key: versions for key, versions in ALL_VERSIONS.items() if key != 19})


REFUSALS: list[tuple[str, Callable[[], FakeBroker], str]] = [
    (
        "create",
        lambda: refusing_creation(ErrorCode.POLICY_VIOLATION),
        "tidelog: Topic 'x' cannot be created: POLICY_VIOLATION.\n",
    ),
    (
        "delete",
        lambda: refusing_deletion(ErrorCode.TOPIC_DELETION_DISABLED),
        "tidelog: Topic 'x' cannot be deleted: the broker has delete.topic.enable=false. Start it with "
        "delete.topic.enable=true.\n",
    ),
    (
        "delete",
        lambda: refusing_deletion(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        "tidelog: Topic 'x' cannot be deleted: TOPIC_AUTHORIZATION_FAILED.\n",
    ),
    ("create", without_create_topics, "serves no version of CreateTopics, and we speak 0 to 7.\n"),
]


@pytest.mark.parametrize(("command", "broker", "sentence"), REFUSALS)
async def test_a_refusal_is_told_in_plain_words(
    command: str, broker: Callable[[], FakeBroker], sentence: str
) -> None:
    fake = broker()

    async def part(stream: trio.SocketStream) -> None:
        # Metadata names the controller, which is this server.
        host, port = stream.socket.getsockname()
        told = metadata_message({})
        told.brokers[0].host, told.brokers[0].port = host, port
        fake.answers["Metadata"] = told
        await honest(fake)(stream)

    async with server(part) as address:
        done = await run(address, command, "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(sentence)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("create", "tidelog: Whether topic 'x' was created is not known: the connection to 127.0.0.1:"),
        ("delete", "tidelog: Whether 'x' was deleted is not known: the connection to 127.0.0.1:"),
    ],
)
async def test_a_change_that_was_not_answered_is_said_to_be_in_doubt(command: str, words: str) -> None:
    """One connection does it all: versions, metadata, and the change that gets no answer."""

    async def part(stream: trio.SocketStream) -> None:
        host, port = stream.socket.getsockname()
        told = metadata_message({})
        told.brokers[0].host, told.brokers[0].port = host, port
        fake = FakeBroker({"Metadata": told})
        for _ in range(2):
            await stream.send_all(fake.receive(await receive_request(stream)))
        await receive_request(stream)

    async with server(part) as address:
        done = await run(address, command, "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(words)
    assert done.stderr.endswith("Check with `tidelog topics list`.\n")


async def test_partitions_without_a_leader_are_shown_without_offsets() -> None:
    fake = FakeBroker({"Metadata": metadata_message({"x": [-1]})})
    fake.ranges = {key: versions for key, versions in ALL_VERSIONS.items() if key != 32}
    async with server(honest(fake)) as address:
        done = await run(address, "describe", "x")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[2].split() == ["0", "none", "1", "1", "-", "-", "-"]
    assert done.stdout.splitlines()[-1] == "configuration: not reported by this broker"
    assert "ListOffsetsRequest" not in [type(asked.message).__name__ for asked in fake.asked]
