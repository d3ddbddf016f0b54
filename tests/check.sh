#!/bin/bash
# check.sh PRESET... - builds and tests each preset and prints one closing line.
#
# The last line is "N passed, N failed, N skipped", counted from CTest's JUnit files over all
# presets. A preset that does not build, or in which no test runs, counts as one failure. Exit status
# 0 only when nothing failed. Gates (format, tidy, borders) run once, in the first preset: they are
# not registered in sanitizer builds.
#
# With more than one preset tests run in their full form (CADRE_TEST_FULL). With one alone some are shorter
# (tests/README.md), and clang-tidy, which takes a minute of two cores, is left out.
#
# While one preset is tested the next one is built, with the lowest priority: tests of clusters mostly
# wait, and the compiler takes what they leave.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
tests=$((jobs + 1)) # at a time: those of clusters mostly wait
passed=0 failed=0 skipped=0
leave_out=() # for ctest
if [ $# -gt 1 ]; then export CADRE_TEST_FULL=1; else leave_out=(-E '^gates/clang_tidy$'); fi
names= # of what failed, one in a line

# number FILE ATTRIBUTE: that attribute of the <testsuite> element, which CTest spreads over lines.
number() {
    sed -n "1,20s/^[[:space:]<]*.*[[:space:]]$2=\"\([0-9]*\)\".*/\1/p" "$1" | head -n 1
}

# add_up FILE: adds one JUnit file to the totals. False when there is none or no test in it ran.
add_up() {
    local file=$1 all bad away
    [ -f "$file" ] || return 1
    all=$(number "$file" tests) bad=$(number "$file" failures)
    away=$(($(number "$file" skipped) + $(number "$file" disabled)))
    [ -n "$all" ] && [ -n "$bad" ] && [ $((all - away)) -gt 0 ] || return 1
    passed=$((passed + all - bad - away)) failed=$((failed + bad)) skipped=$((skipped + away))
}

# failures FILE PRESET: the names of the tests in it that failed.
failures() {
    sed -n 's/^[[:space:]]*<testcase name="\([^"]*\)".* status="fail".*/\1/p' "$1" | sed "s|^|  $2: |"
}

# build PRESET: configures quietly and builds.
build() {
    local log=build/$1.configure.log
    mkdir -p build
    if ! cmake --preset "$1" -DCADRE_TESTS=ON >"$log" 2>&1; then
        cat "$log"
        return 1
    fi
    cmake --build --preset "$1" -j "$jobs"
}

# build_ahead PRESET: starts to build it, into a log, and its exit status into a file: a shell forgets
# that of a child, or mistakes it, once another child has had its id, and tests use up thousands of them.
build_ahead() {
    ahead_log=build/$1.build.log ahead_status=build/$1.build.status
    mkdir -p build
    rm -f "$ahead_status"
    { nice -n 19 tests/check.sh --build "$1" >"$ahead_log" 2>&1; echo $? >"$ahead_status"; } &
    ahead=$!
}

# built PRESET: builds it, or waits for the build that runs and shows what it said.
built() {
    local status
    [ -n "$ahead" ] || { build "$1"; return; }
    wait "$ahead" 2>/dev/null
    ahead=
    status=$(cat "$ahead_status") || status=1 # it was killed
    if [ $status = 0 ]; then tail -n 1 "$ahead_log"; else cat "$ahead_log"; fi
    return $status
}

if [ "${1:-}" = --build ]; then # for build_ahead
    build "$2"
    exit
fi

ahead= # the process that builds the next preset
ahead_log=
ahead_status= # the file
trap 'trap - TERM; kill 0' INT TERM # a process in the background does not hear of the terminal

for preset in "$@"; do
    shift
    echo "== $preset: configure and build"
    started=$SECONDS
    junit=build/$preset/tests.xml
    built "$preset"
    status=$?
    [ $# = 0 ] || build_ahead "$1"
    if [ $status != 0 ]; then
        echo "== $preset: the build failed"
        names+="  $preset: the build"$'\n'
        failed=$((failed + 1))
        continue
    fi
    echo "== $preset: built in $((SECONDS - started)) s, testing"
    started=$SECONDS
    rm -f "$junit"
    ctest --preset "$preset" -j "$tests" "${leave_out[@]}" --output-junit "$PWD/$junit"
    status=$?
    before=$failed
    if ! add_up "$junit"; then
        echo "== $preset: no test ran"
        names+="  $preset: no test ran"$'\n'
        failed=$((failed + 1))
    else
        names+=$(failures "$junit" "$preset")
        names=${names:+${names%$'\n'}$'\n'}
    fi
    # CTest also fails for reasons that are no test's failure.
    [ $status = 0 ] || [ "$failed" -gt "$before" ] || failed=$((failed + 1))
    echo "== $preset: tested in $((SECONDS - started)) s"
done

[ -z "$names" ] || printf 'failed:\n%s' "$names"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
