from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.peers import PeerUnavailableError, maven, resolve_jars
from tests.peers.maven import Coordinates, render_pom
from tests.tables import for_each

if TYPE_CHECKING:
    from pathlib import Path

WANTED = "org.example:thing:1.2"
# Takes the last argument's folder as Maven's plugin does, and counts its calls.
GOOD_MVN = """#!/bin/sh
echo call >> {calls}
for last; do :; done
jars=${{last#-DoutputDirectory=}}
/bin/sleep 0.2
/bin/mkdir -p "$jars" && echo jar > "$jars/thing-1.2.jar"
"""
FAILING_MVN = """#!/bin/sh
echo call >> {calls}
echo "[INFO] trying"
echo "[ERROR] Could not transfer artifact org.example:thing:1.2: Unknown host"
echo "[ERROR] more words"
exit 1
"""


class FakeMaven:
    """A `mvn` on a PATH of its own, and an empty cache."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs = folder / "programs"
        self.programs.mkdir()
        self.cache = folder / "cache"
        self._calls = folder / "calls"
        monkeypatch.setenv("PEERS_CACHE", str(self.cache))
        monkeypatch.setenv("PATH", str(self.programs))
        monkeypatch.setattr(maven, "_failures", {})

    def install(self, script: str) -> None:
        program = self.programs / "mvn"
        program.write_text(script.format(calls=self._calls))
        program.chmod(0o755)

    def remove(self) -> None:
        (self.programs / "mvn").unlink()

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines()) if self._calls.exists() else 0


@pytest.fixture
def fake_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeMaven:
    return FakeMaven(tmp_path, monkeypatch)


def test_jars_are_fetched_once_and_then_need_no_maven(fake_maven: FakeMaven) -> None:
    fake_maven.install(GOOD_MVN)
    folder = resolve_jars(WANTED)
    assert [path.name for path in folder.iterdir()] == ["thing-1.2.jar"]
    assert folder.parent == fake_maven.cache
    fake_maven.remove()
    assert resolve_jars(WANTED) == folder
    assert fake_maven.calls == 1


def test_other_coordinates_have_another_folder(fake_maven: FakeMaven) -> None:
    fake_maven.install(GOOD_MVN)
    folders = {
        resolve_jars(WANTED),
        resolve_jars(WANTED, alone=True),
        resolve_jars(WANTED, "a:b:1"),
        resolve_jars("a:b:1"),
    }
    assert len(folders) == 4


def test_who_comes_at_the_same_time_waits_for_the_first(fake_maven: FakeMaven) -> None:
    fake_maven.install(GOOD_MVN)
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(resolve_jars(WANTED)), daemon=True) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert fake_maven.calls == 1


def test_without_maven_the_reason_says_so(fake_maven: FakeMaven) -> None:
    with pytest.raises(PeerUnavailableError, match="not available because no `mvn` is on the PATH"):
        resolve_jars(WANTED)


def test_mavens_first_error_is_the_reason_and_is_not_asked_for_twice(fake_maven: FakeMaven) -> None:
    fake_maven.install(FAILING_MVN)
    with pytest.raises(PeerUnavailableError):
        resolve_jars(WANTED)
    with pytest.raises(PeerUnavailableError) as caught:
        resolve_jars(WANTED)
    assert caught.value.peer == WANTED
    assert str(caught.value) == (
        "org.example:thing:1.2 is not available because Maven could not fetch it: "
        "Could not transfer artifact org.example:thing:1.2: Unknown host"
        "; is there a network, or a mirror of Maven Central in ~/.m2/settings.xml?"
    )
    assert fake_maven.calls == 1
    assert not [path for path in fake_maven.cache.iterdir() if path.suffix != ".lock"]


def test_a_version_that_does_not_exist_is_the_reason_although_maven_colours_it(
    fake_maven: FakeMaven,
) -> None:
    fake_maven.install(
        "#!/bin/sh\n"
        "printf '\\033[0m[\\033[1;31mERROR\\033[m] Could not resolve it: org.example:thing:jar:1.2 "
        "was not found in https://repo.maven.apache.org/maven2 during a previous attempt. -> [Help 1]\\n"
        "[ERROR] \\n'\n"
        "exit 1\n"
    )
    with pytest.raises(PeerUnavailableError) as caught:
        resolve_jars(WANTED)
    assert str(caught.value).endswith(
        "Maven could not fetch it: Could not resolve it: org.example:thing:jar:1.2 was not found in "
        "https://repo.maven.apache.org/maven2 during a previous attempt."
        "; take a version that https://repo.maven.apache.org/maven2/org/example/thing/ lists"
    )


def test_maven_that_brings_nothing_is_no_success(fake_maven: FakeMaven) -> None:
    fake_maven.install("#!/bin/sh\nexit 0\n")
    with pytest.raises(PeerUnavailableError, match="left no jar"):
        resolve_jars(WANTED)


def test_a_cache_that_cannot_be_written_is_a_reason(fake_maven: FakeMaven) -> None:
    fake_maven.install(GOOD_MVN)
    fake_maven.cache.write_text("in the way")
    with pytest.raises(PeerUnavailableError, match="cannot be used"):
        resolve_jars(WANTED)


@for_each("text", ["", "a:b", "a:b:c:d", "a:b:", "a:b:<c>", "a:../b:c"])
def test_malformed_coordinates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="group:artifact:version"):
        resolve_jars(text)


def test_the_pom_depends_on_what_is_wanted() -> None:
    pom = render_pom([Coordinates.parse("a.b:c_2.13:1.0"), Coordinates.parse("d:e:2")])
    assert "<groupId>a.b</groupId><artifactId>c_2.13</artifactId><version>1.0</version>" in pom
    assert "<groupId>d</groupId><artifactId>e</artifactId><version>2</version>" in pom
    assert "exclusion" not in pom


def test_the_pom_of_jars_alone_excludes_what_they_depend_on() -> None:
    pom = render_pom([Coordinates.parse("a:b:1"), Coordinates.parse("d:e:2")], alone=True)
    assert pom.count("<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>") == 2
