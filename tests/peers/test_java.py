from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.peers import PeerUnavailableError, find_java

if TYPE_CHECKING:
    from pathlib import Path


def install_java(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> Path:
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return program


def test_a_java_that_is_new_enough_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = install_java(tmp_path, monkeypatch, 'openjdk version "21.0.2" 2024-01-16')
    assert find_java("a peer", at_least=17) == str(program)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('java version "1.8.0_402"', "is Java 8, and it needs Java 17 or newer"),
        ('openjdk version "11.0.1" 2018-10-16', "is Java 11, and it needs Java 17"),
        ("what?", "names no version"),
    ],
)
def test_a_java_that_will_not_do_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, reason: str
) -> None:
    install_java(tmp_path, monkeypatch, line)
    with pytest.raises(PeerUnavailableError, match=reason):
        find_java("a peer", at_least=17)


def test_no_java_is_a_reason_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerUnavailableError, match="no `java` is on the PATH; install a Java 17 runtime"):
        find_java("a peer")
