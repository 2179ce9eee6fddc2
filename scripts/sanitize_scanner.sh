#!/usr/bin/env bash
# Compiles the scanner with the sanitizers of addresses and undefined behaviour, and gives it batches with anything in
# them: a read beyond a buffer, an overflow or a crash ends it with a report. Needs gcc or clang, and an installed .venv.
#
#   scripts/sanitize_scanner.sh [COUNT]
set -euo pipefail
cd "$(dirname "$0")/.."
count="${1:-20000}"
python="$PWD/.venv/bin/python"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
cp -r kernel plugins setup.py pyproject.toml README.md LICENSE "$folder"
find "$folder" -name '*.so' -delete
ln -s "$PWD/tests" "$folder/tests"
flags="-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
(cd "$folder" && CFLAGS="$flags" LDFLAGS="$flags" "$python" setup.py --quiet build_ext --inplace)
mkdir -p "$folder/root/tidelog"
ln -s "$folder/kernel" "$folder/plugins" "$folder/root/tidelog/"
# Python itself has no sanitizer, so their library comes first, and each object is a block of its own.
cd "$folder"
LD_PRELOAD="$(${CC:-cc} -print-file-name=libasan.so) $(${CC:-cc} -print-file-name=libubsan.so)" \
  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$folder/root" \
  "$python" -m tests.kernel.records.compare_builds --count "$count"
