#!/bin/bash
# format.sh - every source file is as clang-format 14 writes it. `format.sh --fix` writes it.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(--dry-run -Werror)
[ "${1:-}" != --fix ] || mode=(-i)
find common proto-schemas coordinator ps worker tests bench examples \
    -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 --no-run-if-empty clang-format-14 "${mode[@]}"
