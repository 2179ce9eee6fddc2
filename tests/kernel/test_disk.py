"""The one door to the file system."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.tables import for_each
from tidelog.kernel import disk

PLUGINS = Path(disk.__file__).parent.parent / "plugins"
MODULES = sorted(
    path
    for plugin in ("storage_file", "metadata_kraft")
    for path in (PLUGINS / plugin).rglob("*.py")
    if "testing" not in path.parts
)
HARMLESS = {
    "O_CREAT", "O_RDONLY", "O_RDWR", "O_TRUNC", "O_WRONLY", "O_CLOEXEC", "path", "stat_result", "urandom",
}  # fmt: skip


@for_each("path", MODULES, ids=lambda path: str(path.relative_to(PLUGINS)))
def test_disk_is_the_only_module_that_calls_the_operating_system(path: Path) -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    }
    assert used <= HARMLESS


def test_write_all_is_refused_in_the_words_of_the_system_when_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "pwrite", lambda fd, data, position: 0)
    with pytest.raises(OSError, match="No space left on device: the disk took none") as refused:
        disk.write_all(0, b"data", 0)
    assert disk.is_full(refused.value)


def test_replace_file_syncs_the_file_renames_it_and_syncs_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    for name in ("pwrite", "fsync", "rename"):
        operation = getattr(disk, name)

        def record(*args: object, name: str = name, operation: object = operation) -> object:
            steps.append(name)
            return operation(*args)  # type: ignore[operator]

        monkeypatch.setattr(disk, name, record)
    disk.replace_file(tmp_path / "file", b"content")
    # A rename is durable only once its directory is.
    assert steps == ["pwrite", "fsync", "rename", "fsync"]
    assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("size", [0, 1, 65536, 200_000])
def test_read_file_reads_a_file_of_any_size_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    assert disk.read_file(path) is None
    path.write_bytes(b"x" * size)
    assert disk.read_file(path) == b"x" * size


def test_a_disk_that_takes_nothing_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "pwrite", lambda *_: 0)
    with pytest.raises(OSError, match="took none"):
        disk.write_file(tmp_path / "file", b"content", durable=False)
