"""Compares the compiled scanner with its source on batches with anything in them.

    python -m tests.kernel.records.compare_builds --count 1000000
    python -m tests.kernel.records.compare_builds --count 0 --inputs .fuzzing/scanner/corpus

Both validate each batch as an append does, and read its records as the cleaner and consumers do. Inputs are
those of `make fuzz TARGET=scanner`, which have reached each branch of the source.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

from librt.strings import BytesWriter

from tidelog.kernel.errors import BrokerError
from tidelog.kernel.log import validation
from tidelog.kernel.log.validation import PartitionConfig, validate_at_once, validate_batch, validate_in_steps
from tidelog.kernel.pace import run_to_end
from tidelog.kernel.records import checking, scanner
from tidelog.kernel.records.batch import CODEC_MASK, HEADER_BYTES, parse_header
from tidelog.kernel.records.compression import decompress, register_codecs
from tidelog.kernel.records.record import MAX_RECORDS_BYTES
from tidelog.plugins.compression import kafka_codecs

from .odd_batches import DAY_MS, HOUR_MS, NO_LIMIT, NOW, Sample, mended, sample


def source_of(module: ModuleType) -> ModuleType:
    """The same module, run from its source whether or not it is compiled."""
    path = Path(str(module.__file__)).parent / f"{module.__name__.rpartition('.')[2]}.py"
    if module.__file__ == str(path):
        return module
    return _loaded(f"source_of_{path.stem}", path)


def compiled_of(module: ModuleType) -> ModuleType:
    """The same module, compiled if that is installed, whether or not this process runs it."""
    path = Path(str(module.__file__))
    extension = next(path.parent.glob(f"{path.stem}.*.so"), None)
    if path.suffix != ".py" or extension is None:
        return module
    # An extension can be made under no other name, and puts itself in the place of its source.
    with patch.dict(sys.modules):
        return _loaded(module.__name__, extension)


def _loaded(name: str, path: Path) -> ModuleType:
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


SOURCE, COMPILED = source_of(scanner), compiled_of(scanner)


def validated(each: Sample, module: ModuleType) -> list[object]:
    """What an append makes of a batch with that module's scanner: in one piece, and in steps."""
    with (
        patch.object(checking, "scanner_of", module.scanner_of),
        patch.object(checking, "newest_timestamp", module.newest_timestamp),
        patch.object(validation, "check_at_once", module.check_at_once),
    ):
        try:
            header = validate_batch(each.batch, each.config)
            at_once = validate_at_once(each.batch, header, each.config, NOW)
            return [at_once, run_to_end(validate_in_steps(each.batch, header, each.config, NOW))]
        except BrokerError as error:
            return [type(error), str(error), getattr(error, "record_errors", None)]


def scanned(data: bytes, count: int, module: ModuleType) -> list[object]:
    """What one pass over some bytes finds, and the headers of each record that it passes."""
    fields, headers, scan = BytesWriter(), BytesWriter(), module.Scanner()
    end = scan.scan(data, 0, count, fields)
    noted = memoryview(fields.getvalue()).cast("q")
    for start, number in zip(noted[8 :: scanner.FIELDS], noted[9 :: scanner.FIELDS], strict=True):
        module.note_headers(data, start, number, headers)
    return [end, scan.index, scan.newest_delta, scan.is_stuck, scan.end, bytes(noted), headers.getvalue()]


def difference(each: Sample) -> str | None:
    """What the two scanners do not agree on, None if they do."""
    if (ours := validated(each, COMPILED)) != (theirs := validated(each, SOURCE)):
        return f"validation: {ours} and {theirs}"
    header = parse_header(each.batch)
    packed, codec = each.batch[HEADER_BYTES:], header.attributes & CODEC_MASK
    try:
        data = decompress(codec, packed, MAX_RECORDS_BYTES) if codec else packed
    except BrokerError:
        return None
    if (read := scanned(data, header.record_count, COMPILED)) != (
        again := scanned(data, header.record_count, SOURCE)
    ):
        return f"reading: {read} and {again}"
    return None


def verdict(each: Sample) -> str:
    """A word for what becomes of a batch, to see that all of it occurs."""
    first = validated(each, COMPILED)[0]
    return first.__name__ if isinstance(first, type) else "taken"


def sample_of(data: bytes) -> Sample:
    """What an input of the fuzzer stands for: its first byte is the topic, the others are the batch.

    The batch has its right length and CRC, which a fuzzer cannot guess.
    """
    bits = data[0] if data else 0
    config = PartitionConfig(
        is_compacted=bool(bits & 1),
        message_timestamp_type="LogAppendTime" if bits & 2 else "CreateTime",
        message_timestamp_before_max_ms=DAY_MS if bits & 4 else NO_LIMIT,
        message_timestamp_after_max_ms=HOUR_MS,
    )
    return Sample(bytes(mended(data[1:].ljust(HEADER_BYTES, b"\0"))), config)


def compare_inputs(folder: Path) -> None:
    """Compare every input of a folder; exit with 1 if there is a difference, or if there are none."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    for path in paths:
        if (found := difference(sample_of(path.read_bytes()))) is not None:
            sys.exit(f"{path}: {found}")
    if not paths:
        sys.exit(f"{folder} has no inputs: make fuzz TARGET=scanner")
    print(f"{len(paths)} inputs of {folder}, no difference")


def main() -> None:
    """Compare as many batches as asked for; exit with 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.kernel.records.compare_builds")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--inputs", type=Path, help="a folder with inputs of the fuzzer, compared first")
    options = parser.parse_args()
    if COMPILED is SOURCE:
        sys.exit("nothing is compiled here: install with a C compiler, and do not set TIDELOG_PURE")
    if options.inputs is not None:
        compare_inputs(options.inputs)
    dice, seen = random.Random(options.seed), Counter[str]()
    for number in range(options.count):
        each = sample(dice)
        if (found := difference(each)) is not None:
            sys.exit(f"seed {options.seed}, batch {number}: {found}\n{each.batch.hex()}")
        if number % 100 == 0:
            seen[verdict(each)] += 1
    print(f"seed {options.seed}: {options.count} batches, no difference; every hundredth: {dict(seen)}")


if __name__ == "__main__":
    register_codecs(kafka_codecs())
    main()
