"""Drives a target: by atheris, which follows the coverage, or by plain random changes.

    python -m tests.fuzzing.engine TARGET FOLDER --seconds 60

It is a process of its own, since atheris ends it, and since a target may end it, too.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from tests.fuzzing.findings import Findings
from tidelog.kernel.compiled import MODULES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fuzzing.target import Target

TARGETS = {
    "batches": "Batches",
    "directory": "Directory",
    "frames": "Frames",
    "messages": "Messages",
    "sasl": "Sasl",
    "scanner": "ScannerBuilds",
    "tls": "Tls",
}
_EXTREMES = (
    b"\x7f\xff\xff\xff",
    b"\x80\0\0\0",
    b"\xff" * 4,
    b"\xff\xff",
    b"\x7f\xff",
    b"\xff" * 10,
    b"\0",
    b"\1",
)
_INSTRUMENTED = ["tidelog"]
_LONGEST_INPUT = 1 << 16
_LARGEST_MEMORY_MB = 6000


def new_target(name: str) -> Target:
    """Return a target, not entered yet; this process has the codecs that a broker has."""
    from tidelog.kernel.records.compression import register_codecs
    from tidelog.plugins.compression import kafka_codecs

    register_codecs(kafka_codecs())
    target: Target = getattr(importlib.import_module(f"tests.fuzzing.{name}"), TARGETS[name])()
    return target


def one_input(target: Target, findings: Findings) -> Callable[[bytes], None]:
    """Return what tries one input and keeps it if it is a finding."""
    from tests.fuzzing.target import watched

    def run(data: bytes) -> None:
        findings.ran(data)
        try:
            watched(target, data)
        except Exception as error:  # whatever it is, it is a finding
            findings.add(data, error)

    return run


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return an input with one to four random changes."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(out))
        match chance.randrange(4):
            case 0:
                out[at : at + 1] = chance.randbytes(1)
            case 1:
                del out[at : at + chance.randint(1, 8)]
            case 2:
                out[at:at] = chance.randbytes(chance.randint(1, 8))
            case _:
                extreme = chance.choice(_EXTREMES)
                out[at : at + len(extreme)] = extreme
    return bytes(out)


def fuzz_at_random(target: Target, findings: Findings, executions: int, seed: int) -> None:
    """Try the seeds, and then so many random changes of them, the same for the same seed."""
    run, chance, seeds = one_input(target, findings), random.Random(seed), target.seeds()
    for data in seeds:
        run(data)
    for _ in range(executions):
        run(changed(chance.choice(seeds), chance))


def follow(module: ModuleType, instrument: Callable[[FunctionType], object]) -> None:
    """Instrument the functions of a module that may be compiled: the hook of imports misses its source."""
    for owner in (module, *(each for each in vars(module).values() if isinstance(each, type))):
        for each in vars(owner).values():
            if isinstance(each, FunctionType) and each.__module__ == module.__name__:
                instrument(each)


def main(arguments: Sequence[str]) -> int:
    """Fuzz until the time is up; 1 if anything was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args(arguments)
    corpus: Path = options.folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    findings = Findings(options.folder)
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=_INSTRUMENTED):
        target = new_target(options.target)
    for module in MODULES:
        if module in sys.modules:
            follow(sys.modules[module], atheris.instrument_func)
    with target:
        for number, seed in enumerate(target.seeds()):
            (corpus / f"seed-{number:04}").write_bytes(seed)
        limits = [f"-max_total_time={options.seconds}", f"-max_len={_LONGEST_INPUT}", "-len_control=0"]
        limits += [
            f"-rss_limit_mb={_LARGEST_MEMORY_MB}",
            "-timeout=60",
            "-print_final_stats=1",
            "-verbosity=0",
        ]
        atheris.Setup(
            [sys.argv[0], *limits, f"-artifact_prefix={options.folder}/", str(corpus)],
            one_input(target, findings),
        )
        atheris.Fuzz()
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
