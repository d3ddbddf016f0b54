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

# Every report counts but LeakSanitizer's remark that a thread was ending just then.
is_ours() {
    grep -vE '^(==[0-9]+==Unable to get registers from thread [0-9]+\.)?$' "$1" | grep -q .
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
fi
exit $status
