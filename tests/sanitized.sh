#!/bin/bash
# sanitized.sh PROGRAM [ARG ...] - runs a sanitizer build's test and fails it on any report.
#
# Criterion and processes that a test starts hide the exit status of a leak report, so every process
# below this one writes its reports to files, and any file fails the test.
set -u
here=$(cd "$(dirname "$0")" && pwd)
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

common="log_path=$reports/report:print_stacktrace=1"
export ASAN_OPTIONS="$common:detect_leaks=1:abort_on_error=0:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="$common:${UBSAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$here/lsan.supp:print_suppressions=0:${LSAN_OPTIONS:-}"
export TSAN_OPTIONS="$common:suppressions=$here/tsan.supp:second_deadlock_stack=1:${TSAN_OPTIONS:-}"

"$@"
status=$?

# Every report counts but two: LeakSanitizer's remark that a thread was ending just then, and
# Criterion's own 48 bytes, where libcriterion itself called calloc (a suppression would hide every
# leak of a test, since Criterion is below them all).
is_ours() {
    awk '/^$/ || /^==[0-9]+==Unable to get registers from thread [0-9]+\.$/ { next }
         /ERROR: LeakSanitizer: detected memory leaks/ { leaks = 1 }
         /(ERROR|FATAL|WARNING): / && !/ERROR: LeakSanitizer: detected memory leaks/ { other = 1 }
         /runtime error:|fatal error/ { other = 1 }
         /leak of .* allocated from/ { blocks++; open = 1 }
         open && /#1 / { theirs += /libcriterion\.so/; open = 0 }
         { lines++ }
         END { exit !(other || blocks > theirs || (lines && !(leaks && blocks))) }' "$1"
}

shopt -s nullglob
files=()
for file in "$reports"/*; do
    if is_ours "$file"; then
        files+=("$file")
    fi
done
if [ ${#files[@]} -gt 0 ]; then
    echo "sanitized: ${#files[@]} reports; the first ones:"
    head -q -n 60 "${files[@]:0:3}"
    [ $status != 0 ] || status=1
elif [ $status = 23 ] && [ -n "$(ls -A "$reports")" ]; then
    status=0 # LeakSanitizer's own exit status, for a report that is not ours
fi
exit $status
