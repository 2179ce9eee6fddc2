"""Class-data-sharing archive: the classes of a folder of jars, ready to be mapped by a JVM (JEP 350)."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import attrs

from .cache import exclusive
from .java import java_version
from .process import ServerFailedError

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_JAVA = 13
# A JVM that cannot use an archive starts without it, and would say so on its standard output.
_QUIET = ("-Xshare:auto", "-Xlog:disable")

_failed: set[Path] = set()


@attrs.frozen
class ClassArchive:
    """Archive of the classes that a training run of `java` with the class path `jars/*` loaded.

    It lies beside `jars` and serves every program whose class path begins with `jars/*`. A JVM of another
    version has another archive. Java 12 and older have none.
    """

    java: str
    jars: Path

    @property
    def path(self) -> Path:
        """The archive's file, which need not be there."""
        made_for = f"{java_version(self.java).text}\n{self.jars}\n{self.jars.stat().st_mtime_ns}"
        digest = hashlib.sha256(made_for.encode()).hexdigest()[:12]
        return self.jars.with_name(f"{self.jars.name}-classes-{digest}.jsa")

    def options(self) -> tuple[str, ...]:
        """Return the JVM options that map the archive; none while there is no archive."""
        if not self._is_supported or not self.path.exists():
            return ()
        return (f"-XX:SharedArchiveFile={self.path}", *_QUIET)

    def make(self, train: Callable[[tuple[str, ...]], None]) -> None:
        """Make the archive unless it is there: `train` runs a JVM to its end with the options it gets.

        A training run that fails leaves no archive and is not tried again by this process: programs then
        start without.
        """
        if not self._is_supported or self.path.exists() or self.path in _failed:
            return
        try:
            with exclusive(self.path.with_suffix(".lock")):
                if not self.path.exists():
                    self._train(train)
        except (OSError, ServerFailedError, subprocess.SubprocessError):
            _failed.add(self.path)

    @property
    def _is_supported(self) -> bool:
        return (java_version(self.java).major or 0) >= _FIRST_JAVA

    def _train(self, train: Callable[[tuple[str, ...]], None]) -> None:
        """Write the archive aside and rename it: no JVM ever maps a part of it."""
        with TemporaryDirectory(prefix=f"{self.path.name}.", dir=self.path.parent) as aside:
            written = Path(aside, self.path.name)
            train((f"-XX:ArchiveClassesAtExit={written}", *_QUIET))
            written.rename(self.path)
