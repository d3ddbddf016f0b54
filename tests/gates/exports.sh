#!/bin/bash
# exports.sh LIBRARY - libcadre.so exports only names that begin with cadre_, each of them declared
# in a public header, and every function that the headers of a coordinator program declare; it links
# only the libraries it is meant to.
set -euo pipefail
library=$1
cd "$(dirname "$0")/../.."

status=0
names=$(nm -D --defined-only "$library" | awk '{print $3}')
[ -n "$names" ] || { echo "exports: $library exports nothing"; exit 1; }
for name in $names; do
    if [[ $name != cadre_* ]]; then
        echo "exports: $name has no prefix"
        status=1
    elif ! grep -qrwF "$name" {common,coordinator,worker}/include/cadre 2>/dev/null; then
        echo "exports: $name is in no public header"
        status=1
    fi
done

# A declaration may begin on the line of CADRE_API and go on below it. cadre_native_register is the user's.
declared=$(cat {common,coordinator,worker}/include/cadre/*.h | tr '\n' ' ' |
    grep -oE 'CADRE_API [^;(]*\(' | grep -oE 'cadre_[a-z0-9_]+\(' | tr -d '(' | grep -vx cadre_native_register | sort -u)
# Until the coordinator is part of the library there is nothing to be complete.
if grep -qxF cadre_coordinator_open <<<"$names"; then
    for name in $declared; do
        if ! grep -qxF "$name" <<<"$names"; then
            echo "exports: $name is declared, but not in $library"
            status=1
        fi
    done
fi

allowed='^(libc|libm|libzmq|libmsgpackc|liblmdb|libjansson|libxxhash|libz|libzstd|libmicrohttpd|libasan|libubsan|libtsan|ld-linux.*)\.so'
for needed in $(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    if [[ ! $needed =~ $allowed ]]; then
        echo "exports: links $needed"
        status=1
    fi
done
exit $status
