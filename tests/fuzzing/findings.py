"""What a fuzzer found: one file for each place where something went wrong."""

from __future__ import annotations

import hashlib
import json
import traceback
from pathlib import Path

import attrs

_HERE = str(Path(__file__).parent)
_RECENT = 50


@attrs.define
class Findings:
    """Findings and their inputs in a folder; the same place is reported once.

    Beside `finding-X.input` lie `finding-X.text`, the traceback, and `finding-X.before`: a JSON list of the
    inputs before it in hexadecimal, for what depends on them.
    """

    folder: Path
    executions: int = 0
    found: dict[str, str] = attrs.field(factory=dict[str, str])
    _recent: list[bytes] = attrs.field(factory=list[bytes])

    def ran(self, data: bytes) -> None:
        """Note an input that is about to be tried."""
        self.executions += 1
        self._recent.append(data)
        if len(self._recent) > 2 * _RECENT:
            del self._recent[:_RECENT]
        if self.executions % 100 == 0:
            self.write_statistics()

    def add(self, data: bytes, error: BaseException) -> None:
        """Keep an input that the target did not take."""
        place = place_of(error)
        name = f"finding-{hashlib.sha256(place.encode()).hexdigest()[:8]}"
        if name in self.found:
            return
        self.found[name] = place
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{name}.input").write_bytes(data)
        (self.folder / f"{name}.text").write_text("".join(traceback.format_exception(error)))
        before = [each.hex() for each in self._recent[-_RECENT - 1 : -1]]
        (self.folder / f"{name}.before").write_text(json.dumps(before))
        self.write_statistics()

    def write_statistics(self) -> None:
        """Leave the figures for the process that started this one; the fuzzer ends without a word."""
        self.folder.mkdir(parents=True, exist_ok=True)
        figures = {"executions": self.executions, "found": self.found}
        (self.folder / "statistics.json").write_text(json.dumps(figures))


def place_of(error: BaseException) -> str:
    """Return the kind of an error and the last line of the broker that it came from."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    lines = [
        frame for frame in traceback.extract_tb(root.__traceback__) if not frame.filename.startswith(_HERE)
    ]
    last = lines[-1] if lines else None
    where = f"{Path(last.filename).name}:{last.name}:{last.line}" if last else str(root)
    return f"{type(error).__name__}/{type(root).__name__} at {where}"
