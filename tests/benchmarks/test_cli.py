from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from benchmarks.brokers import BaselineKind
from benchmarks.cli import main
from benchmarks.peer import find_peer
from benchmarks.workspace import default_base, workspace
from tests.peers import NEWEST_KAFKA, KafkaDistribution, PeerUnavailableError
from tests.tables import for_each

if TYPE_CHECKING:
    from pathlib import Path


def test_help_has_examples() -> None:
    told = CliRunner().invoke(main, ["--help"])
    assert told.exit_code == 0
    assert "python -m benchmarks --smoke" in told.output


def test_help_explains_each_option() -> None:
    for option in main.params:
        assert isinstance(option, click.Option)
        assert option.help, option.name


def test_a_release_that_cannot_be_had_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(version: str) -> None:
        raise PeerUnavailableError(f"Apache Kafka {version}", "there is none")

    monkeypatch.setattr("benchmarks.peer.find_kafka", unavailable)
    refused = CliRunner().invoke(main, ["--peer", "9.9.9"])
    assert refused.exit_code == 2
    assert "Is 9.9.9 a release of Apache Kafka?" in refused.output
    assert f"{NEWEST_KAFKA} is the newest" in refused.output


def test_peers_are_releases_and_other_tidelogs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peer.find_kafka", lambda name: KafkaDistribution(name, tmp_path, "java"))
    assert find_peer("3.9.1").title == "Apache Kafka 3.9.1"
    assert find_peer("pure") == BaselineKind(pure=True)
    interpreter = tmp_path / ".venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.touch()
    assert find_peer(str(tmp_path)) == BaselineKind(checkout=tmp_path)


def test_list_names_the_rows_of_the_plan() -> None:
    told = CliRunner().invoke(main, ["--list", "--only", "imports"])
    assert (told.exit_code, told.output) == (0, "imports\n")
    default, full = (CliRunner().invoke(main, ["--list", *more]).output for more in ([], ["--full"]))
    assert set(default.splitlines()) < set(full.splitlines())


@for_each(
    ("arguments", "complaint"),
    [
        (["--only", "nonsense"], "nothing is called 'nonsense'"),
        (["--smoke", "--full"], "exclude each other"),
        (["--no-tidelog", "--no-kafka"], "leaves no broker"),
        (["--repeat", "0"], "--repeat"),
        (["--seconds", "0"], "--seconds"),
        (["--slices", "0"], "--slices"),
        (["--peer", "nonsense"], "'nonsense' is no peer: name a release of Apache Kafka such as 4.4.0"),
        (["--peer", "/"], "run `make test` in / first"),
        (["--peer", "pure", "--smoke"], "--peer and --against-*"),
        (["--peer", "pure", "--no-tidelog"], "--peer and --against-*"),
        (["--peer", "pure", "--against-pure"], "exclude each other"),
        (["--against-set", "novalue"], "'novalue' is not KEY=VALUE"),
        (["--against-set", "a=b", "--smoke"], "--against-*"),
        (["--against-set", "a=b", "--no-kafka"], "--against-*"),
        (["--against-checkout", "/nowhere"], "does not exist"),
        (["--against-checkout", "/"], "run `make test` in / first"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(arguments: list[str], complaint: str) -> None:
    told = CliRunner().invoke(main, arguments)
    assert told.exit_code == 2
    assert complaint in told.output


def test_a_workspace_is_new_and_goes_away(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with workspace(tmp_path) as folder:
        (folder / "data").write_bytes(b"x")
        assert folder.parent == tmp_path
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_data_that_memory_cannot_hold_goes_to_a_disk() -> None:
    assert str(default_base(1 << 60)) != "/dev/shm"
