from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from benchmarks.cli import main
from benchmarks.workspace import default_base, workspace
from tests.tables import for_each

if TYPE_CHECKING:
    from pathlib import Path


def test_help_has_examples() -> None:
    told = CliRunner().invoke(main, ["--help"])
    assert told.exit_code == 0
    assert "python -m benchmarks --smoke" in told.output


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
