"""`tidelog acls`: what the page does not show."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
import trio

from tests.kernel.cli.running import tidelog_in_process
from tidelog.client import AclBinding, AclBindingFilter, Admin, AsyncAdmin
from tidelog.kernel.testing.broker import broker_in_thread
from tidelog.plugins.client.errors import ErrorResponse

SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
READ = AclBinding("User:alice", "read", "topic", "orders")
WRITE = AclBinding("User:*", "write", "topic", "ord", "prefixed", "192.0.2.1", "deny")


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with broker_in_thread(SETTINGS) as running:
        yield running.bootstrap


def run(bootstrap: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return tidelog_in_process("acls", command, "--bootstrap-server", bootstrap, *arguments)


def test_admin_creates_describes_and_deletes_entries(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        assert admin.create_acls([READ, WRITE, READ]) == {READ: None, WRITE: None}
        assert {*admin.describe_acls()} == {READ, WRITE}
        about = AclBindingFilter(resource="topic", name="orders", pattern="match", permission="deny")
        assert admin.describe_acls(about) == [WRITE]
        only = AclBindingFilter.of(READ)
        assert admin.delete_acls([only]) == {only: [READ]}
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            admin.create_acls([AclBinding("User:alice", "read", "topic", "")])
        with pytest.raises(ValueError, match="'fly' is none of all, read"):
            admin.create_acls([AclBinding("User:alice", "fly", "topic", "t")])


async def test_async_admin_has_the_same(bootstrap: str) -> None:
    with trio.fail_after(30):
        async with AsyncAdmin(bootstrap) as admin:
            await admin.create_acls([READ])
            assert await admin.describe_acls() == [READ]
            assert await admin.delete_acls([AclBindingFilter()]) == {AclBindingFilter(): [READ]}


def test_entries_are_printed_as_json(bootstrap: str) -> None:
    added = run(
        bootstrap, "add", "--principal", "User:a", "--operation", "alter", "--cluster", "--prefix", "--json"
    )
    (entry,) = json.loads(added.stdout)
    assert (entry["resource"], entry["name"], entry["pattern"]) == ("cluster", "kafka-cluster", "literal")
    assert json.loads(run(bootstrap, "list", "--json").stdout) == [entry]
    assert json.loads(run(bootstrap, "remove", "--cluster", "--deny", "--json").stdout) == []
    assert json.loads(run(bootstrap, "remove", "--cluster", "--allow", "--json").stdout) == [entry]
    nothing = run(bootstrap, "list")
    assert (nothing.stdout, nothing.stderr) == ("", "There are no such entries.\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("add", "--principal", "User:a", "--topic", "t"), "Say whom (--principal), what (--operation)"),
        (("add", "--operation", "read", "--topic", "t"), "Say whom (--principal), what (--operation)"),
        (("remove", "--operation", "read"), "Say whose entries (--principal), or about what"),
        (("list", "--topic", "a", "--group", "b"), "Say --topic or --group, not both."),
        (
            ("add", "--principal", "x", "--operation", "read", "--topic", "t"),
            "Could not parse principal from `x`",
        ),
    ],
)
def test_what_cannot_be_is_an_error(bootstrap: str, arguments: tuple[str, ...], sentence: str) -> None:
    done = run(bootstrap, *arguments)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr


def test_without_an_authorizer_the_commands_say_what_is_missing() -> None:
    with broker_in_thread() as running:
        for arguments in (("list",), ("remove", "--topic", "t")):
            done = run(running.bootstrap, *arguments)
            assert (done.returncode, "set authorizer.class.name" in done.stderr) == (1, True)


def test_without_the_permission_the_commands_name_it() -> None:
    with broker_in_thread({"authorizer.class.name": "standard"}) as running:
        done = run(running.bootstrap, "list")
        assert (done.returncode, "needs DESCRIBE or ALTER on the cluster" in done.stderr) == (1, True)
