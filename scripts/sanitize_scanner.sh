#!/usr/bin/env bash
# Compiles the scanner with the sanitizers of addresses and undefined behaviour, and gives it batches with anything in
# them: a read beyond a buffer, an overflow or a crash ends it with a report. Needs gcc or clang, and an installed .venv.
#
#   scripts/sanitize_scanner.sh [COUNT [INPUTS]]
#
# INPUTS: a folder with inputs that `make fuzz TARGET=scanner` has found, .fuzzing/scanner/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
count="${1:-20000}"
inputs="${2:+$(realpath "$2")}"
python="$PWD/.venv/bin/python"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cp -r kernel plugins testing src setup.py pyproject.toml README.md LICENSE "$folder"
find "$folder" -name '*.so' -delete
ln -s "$PWD/tests" "$folder/tests"
# Of the modules that are compiled only the scanner: the others take most of the time.
sed -i '/^    "tidelog\./{/scanner",$/!d}' "$folder/kernel/compiled.py"
# mypyc itself shifts a bit into the sign.
flags="-fsanitize=address,undefined -fno-sanitize=shift-base -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
(cd "$folder" && CFLAGS="$flags" LDFLAGS="$flags" "$python" setup.py --quiet build_ext --inplace)
# Python itself has no sanitizer, so their library comes first, and each object is a block of its own.
cd "$folder"
LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so) $(${CC:-cc} -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$folder/src" \
  "$python" -m tests.kernel.records.compare_builds --count "$count" ${inputs:+--inputs "$inputs"}
