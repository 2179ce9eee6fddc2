"""What importing the client loads: Spark's workers have no event loop and want none."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"asyncio", "click", "cramjam", "lz4", "pytest", "rich", "trio", "zstandard"}


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("import tidelog.plugins.client", set[str]()),
        ("from tidelog.plugins.client import BlockingClient; BlockingClient('a:1')", set[str]()),
        ("import tidelog.plugins.client_commands", set[str]()),
        ("from tidelog.plugins.client import TrioClient", {"trio"}),
    ],
)
def test_imports_of_client_load_trio_only_for_trio_client(program: str, loaded: set[str]) -> None:
    whole = f"{program}; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == loaded


def test_imports_of_an_unknown_client_name_raise_attribute_error() -> None:
    import tidelog.plugins.client as client

    with pytest.raises(AttributeError, match="no attribute 'AsyncioClient'"):
        _ = client.AsyncioClient  # pyright: ignore[reportAttributeAccessIssue]


def test_each_name_of_the_client_is_there() -> None:
    import tidelog.plugins.client as client

    found = {name: getattr(client, name) for name in client.__all__}
    classes = {name: each for name, each in found.items() if isinstance(each, type)}
    assert {name: each.__name__ for name, each in classes.items()} == {name: name for name in classes}
    assert len(classes) > 15
    assert (client.EARLIEST_TIMESTAMP, client.LATEST_TIMESTAMP, client.MAX_TIMESTAMP) == (-2, -1, -3)
