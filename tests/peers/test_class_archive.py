from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import attrs
import pytest

from tests.peers import NEWEST_KAFKA, KafkaServer, ServerFailedError, find_java, find_kafka
from tests.peers.class_archive import ClassArchive

MAPPED = "-XX:SharedArchiveFile="
WRITTEN = "-XX:ArchiveClassesAtExit="


@attrs.define
class Training:
    """A training run that writes `content` where it was asked to, or fails."""

    content: str = "classes"
    failure: Exception | None = None
    calls: int = 0

    def __call__(self, options: tuple[str, ...]) -> None:
        self.calls += 1
        (written,) = (option.removeprefix(WRITTEN) for option in options if option.startswith(WRITTEN))
        Path(written).write_text(self.content)
        if self.failure is not None:
            raise self.failure


def java_of(folder: Path, version: str) -> str:
    program = folder / f"java-{version}"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "cache" / "jars"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def archive(tmp_path: Path, jars: Path) -> ClassArchive:
    return ClassArchive(java_of(tmp_path, "17.0.1"), jars)


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


def test_make_trains_once_and_options_map_what_it_left(archive: ClassArchive, jars: Path) -> None:
    training = Training()
    assert archive.options() == ()
    archive.make(training)
    archive.make(training)
    assert training.calls == 1
    assert archive.options() == (f"{MAPPED}{archive.path}", "-Xshare:auto", "-Xlog:disable")
    assert archive.path.read_text() == "classes"
    assert sorted(left_in(jars.parent)) == sorted([jars.name, archive.path.name])


def test_make_by_many_at_the_same_time_trains_once(archive: ClassArchive) -> None:
    training = Training()
    threads = [threading.Thread(target=archive.make, args=(training,), daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert training.calls == 1


@pytest.mark.parametrize(
    "failure", [ServerFailedError("no"), OSError("full"), subprocess.TimeoutExpired("java", 1)], ids=repr
)
def test_a_training_run_that_fails_leaves_nothing_and_is_not_tried_again(
    archive: ClassArchive, jars: Path, failure: Exception
) -> None:
    training = Training(failure=failure)
    archive.make(training)
    archive.make(training)
    assert training.calls == 1
    assert archive.options() == ()
    assert left_in(jars.parent) == [jars.name]


def test_a_training_run_that_writes_nothing_leaves_no_archive(archive: ClassArchive) -> None:
    archive.make(lambda _: None)
    assert archive.options() == ()


def test_a_cache_that_cannot_be_written_means_no_archive(archive: ClassArchive) -> None:
    archive.path.with_suffix(".lock").mkdir()
    training = Training()
    archive.make(training)
    assert (training.calls, archive.options()) == (0, ())


@pytest.mark.parametrize("version", ["11.0.2", "12.0.1", "1.8.0_402", "what"])
def test_java_before_13_has_no_archive(tmp_path: Path, jars: Path, version: str) -> None:
    archive = ClassArchive(java_of(tmp_path, version), jars)
    training = Training()
    archive.make(training)
    assert (training.calls, archive.options()) == (0, ())


def test_each_java_version_and_each_folder_of_jars_has_its_own_archive(tmp_path: Path, jars: Path) -> None:
    other_jars = jars.with_name("others")
    other_jars.mkdir()
    javas = [java_of(tmp_path, version) for version in ("17.0.1", "17.0.2")]
    archives = [ClassArchive(java, folder) for java in javas for folder in (jars, other_jars)]
    assert len({archive.path for archive in archives}) == 4


def test_java_is_silent_about_an_archive_that_it_cannot_use(jars: Path) -> None:
    archive = ClassArchive(find_java("the archive's user"), jars)
    archive.make(Training("no classes"))
    command = [archive.java, *archive.options(), "-cp", f"{jars}/*", "-version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout == ""
    assert "warning" not in ended.stderr


def test_servers_and_tools_of_the_newest_kafka_map_the_archive(tmp_path: Path) -> None:
    kafka = find_kafka()
    server = KafkaServer(kafka, tmp_path)
    (option,) = (word for word in server.process.command if word.startswith(MAPPED))
    assert option == f"{MAPPED}{kafka.archive.path}"
    loads = tmp_path / "loads"
    options = [*kafka.archive.options(), f"-Xlog:class+load:file={loads}"]
    subprocess.run(kafka.command("kafka.Kafka", (), options), capture_output=True)
    (line,) = (line for line in loads.read_text().splitlines() if " kafka.Kafka " in line)
    assert line.endswith("source: shared objects file (top)")


def test_a_server_of_another_release_or_with_options_of_its_own_has_no_archive(tmp_path: Path) -> None:
    kafka = find_kafka()
    other = attrs.evolve(kafka, version="9.9", jars=tmp_path)
    servers = [KafkaServer(other, tmp_path), KafkaServer(kafka, tmp_path, jvm_options=("-Xmx1G",))]
    assert not [word for server in servers for word in server.process.command if word.startswith(MAPPED)]
    assert kafka.version == NEWEST_KAFKA
