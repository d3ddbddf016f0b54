#!/bin/bash
# public_headers.sh - each public header compiles alone, as C11 and as C++17, with all warnings.
set -euo pipefail
cd "$(dirname "$0")/../.."
warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
folders=()
for folder in common coordinator worker; do
    [ ! -d "$folder/include" ] || folders+=("-I$folder/include")
done
count=0
for header in {common,coordinator,worker}/include/cadre/*.h; do
    [ -f "$header" ] || continue
    include="#include <cadre/$(basename "$header")>"
    # An empty translation unit is not ISO C.
    printf '%s\nextern int cadre_gate;\n' "$include" |
        gcc -std=c11 "${warnings[@]}" -Wstrict-prototypes "${folders[@]}" -x c -
    printf '%s\n' "$include" | g++ -std=c++17 "${warnings[@]}" "${folders[@]}" -x c++ -
    count=$((count + 1))
done
echo "public_headers: $count headers"
[ $count -gt 0 ]
