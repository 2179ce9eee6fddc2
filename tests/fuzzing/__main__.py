"""`make fuzz MINUTES=n TARGET=…`: let atheris look for inputs that the broker does not take as it should."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.fuzzing.engine import TARGETS, new_target
from tests.fuzzing.target import watched


def main() -> int:
    """Return 0 if nothing was found, or if a replayed input is taken; else 1."""
    parser = argparse.ArgumentParser(prog="make fuzz")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=Path(".fuzzing"), help="of inputs and findings")
    parser.add_argument("--replay", type=Path, help="a finding's input, tried once more")
    options = parser.parse_args()
    if options.replay:
        return _replay(options.target, options.replay)
    return _fuzz(options.target, options.minutes, options.folder / options.target)


def _fuzz(target: str, minutes: float, folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "fuzzer.log"
    with log.open("wb") as output:
        command = [sys.executable, "-m", "tests.fuzzing.engine", target, str(folder)]
        ended = subprocess.run(
            [*command, "--seconds", str(round(minutes * 60))], stdout=output, stderr=output, check=False
        )
    figures = json.loads((folder / "statistics.json").read_text())
    found: dict[str, str] = figures["found"]
    print(
        f"{target}: {figures['executions']} executions, {len(found)} findings; inputs are in {folder}/corpus"
    )
    for name, place in sorted(found.items()):
        print(f"  {place}\n    again: make fuzz TARGET={target} REPLAY={folder}/{name}.input")
    if ended.returncode not in (0, 1) or b"ERROR: libFuzzer" in log.read_bytes():
        print(f"  the fuzzer itself was ended (code {ended.returncode}): see {log} and {folder}")
        return 1
    return 1 if found else 0


def _replay(target: str, path: Path) -> int:
    """Try the input alone; if it is taken, try it once more behind those that came before it."""
    before = path.with_suffix(".before")
    earlier = [bytes.fromhex(each) for each in json.loads(before.read_text())] if before.exists() else []
    with new_target(target) as running:
        watched(running, path.read_bytes())
    with new_target(target) as running:
        for data in earlier:
            running.run(data)
        watched(running, path.read_bytes())
    print("taken as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
