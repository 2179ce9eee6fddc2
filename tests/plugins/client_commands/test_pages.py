"""The pages of the commands: each example does what the page says, in their order, on one broker a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.docs.examples import Example, examples_of, run_example_on
from tests.peers import running_tidelog

PAGES = (
    "topics.md",
    "group-commands.md",
    "config-commands.md",
    "acls.md",
    "users.md",
    "tokens.md",
    "quotas.md",
    "partition-commands.md",
    "produce-consume.md",
)
EXAMPLES = [(page, example) for page in PAGES for example in examples_of(page)]
SETTINGS = {
    "acls.md": {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"},
    "tokens.md": {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.plaintext.plain.sasl.jaas.config": "PlainLoginModule required user_alice=secret;",
        "delegation.token.secret.key": "of the broker",
    },
}
"""What a broker needs for a page."""
FILES = {
    "tokens.md": {
        "client.properties": "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=PlainLoginModule required username="alice" password="secret";\n'
    }
}
"""Files that the examples of a page read."""
USUAL_ADDRESS = "127.0.0.1:9092"


@attrs.frozen
class Place:
    """Where the examples of one page run: one may read what another has written."""

    bootstrap: str
    folder: Path


class Places:
    """The place of each page, made when its first example runs."""

    def __init__(self, folder: Path, brokers: ExitStack) -> None:
        self._folder = folder
        self._brokers = brokers
        self._places: dict[str, Place] = {}

    def of(self, page: str) -> Place:
        if page not in self._places:
            data, examples = (self._folder / page / name for name in ("broker", "examples"))
            examples.mkdir(parents=True)
            data.mkdir()
            for name, content in FILES.get(page, {}).items():
                (examples / name).write_text(content)
            broker = self._brokers.enter_context(running_tidelog(data, settings=SETTINGS.get(page, {})))
            self._places[page] = Place(broker.bootstrap, examples)
        return self._places[page]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Brokers without topics, which the examples of the pages fill."""
    with ExitStack() as brokers:
        yield Places(tmp_path_factory.mktemp("pages"), brokers)


@pytest.mark.parametrize(("page", "example"), EXAMPLES, ids=str)
def test_example_works(page: str, example: Example, places: Places) -> None:
    place = places.of(page)
    there = attrs.evolve(example, text=example.text.replace(USUAL_ADDRESS, place.bootstrap))
    run_example_on(there, place.bootstrap, place.folder)
