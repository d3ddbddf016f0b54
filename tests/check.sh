#!/bin/bash
# check.sh PRESET... - builds and tests each preset and prints one closing line.
#
# The last line is "N passed, N failed, N skipped", counted from CTest's JUnit files over all
# presets; a preset that does not build counts as one failure. Exit status 0 only when tests ran and
# none failed. Gates (format, tidy, borders) run once, in the first preset.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
passed=0 failed=0 skipped=0
not_first=()

# number FILE ATTRIBUTE: that attribute of the <testsuite> element, which CTest spreads over lines.
number() {
    sed -n "1,20s/^[[:space:]<]*.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# add_up FILE: adds one JUnit file to the totals; a file that cannot be read is a failure.
add_up() {
    local file=$1 all bad away
    all=$(number "$file" tests) bad=$(number "$file" failures)
    away=$(($(number "$file" skipped) + $(number "$file" disabled)))
    if [ -z "$all" ] || [ -z "$bad" ]; then
        failed=$((failed + 1))
        return
    fi
    passed=$((passed + all - bad - away)) failed=$((failed + bad)) skipped=$((skipped + away))
}

for preset in "$@"; do
    echo "== $preset: configure and build"
    started=$SECONDS
    junit=build/$preset/tests.xml
    if ! cmake --preset "$preset" -DCADRE_TESTS=ON --log-level=WARNING ||
        ! cmake --build --preset "$preset" -j "$jobs"; then
        echo "== $preset: the build failed"
        failed=$((failed + 1))
        continue
    fi
    echo "== $preset: built in $((SECONDS - started)) s, testing"
    started=$SECONDS
    rm -f "$junit"
    ctest --preset "$preset" -j "$jobs" "${not_first[@]}" --output-junit "$PWD/$junit"
    status=$?
    before=$failed
    if [ -f "$junit" ]; then
        add_up "$junit"
    else
        failed=$((failed + 1))
    fi
    # CTest also fails for reasons that are no test's failure.
    [ $status = 0 ] || [ "$failed" -gt "$before" ] || failed=$((failed + 1))
    echo "== $preset: tested in $((SECONDS - started)) s"
    not_first=(-LE gates)
done

[ $((passed + failed)) -gt 0 ] || echo "check: no test ran"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
