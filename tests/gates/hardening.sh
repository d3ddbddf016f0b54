#!/bin/bash
# hardening.sh FOLDER - nothing built or installed below FOLDER looks for libraries where anybody can
# plant one: every element of a RUNPATH is an absolute folder (an empty one, as CMake pads it, is the
# current folder), every program is position independent, and every program and library of ours has its
# relocations bound and read-only before main, stack protectors and checked string functions. What is in our
# static libraries was compiled for indirect branch tracking and shadow stacks; the linked programs do not
# say so, because Debian's crt1.o and libc.so.6 do not.
set -euo pipefail
folder=$1
status=0

mapfile -t files < <(find "$folder" -name CMakeFiles -prune -o -type f \( -perm -u+x -o -name '*.so*' \) -print |
    while read -r file; do
        [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] && echo "$file"
    done)
[ ${#files[@]} -gt 0 ] || { echo "hardening: $folder holds no program"; exit 1; }
# `File:` stands above each only where there are several.
bad=$(readelf -d "${files[@]}" /bin/true 2>/dev/null | awk '
    /^File: /{file = $2}
    /\((RUNPATH|RPATH)\)/{
        text = $0; sub(/^[^[]*\[/, "", text); sub(/\]$/, "", text)
        count = split(text, place, ":")
        for (i = 1; i <= count; i++) if (place[i] !~ /^\//) {
            print file ": looks for libraries in [" text "]"; break
        }
    }')
[ -z "$bad" ] || { echo "$bad"; status=1; }
for file in "${files[@]}"; do
    [[ $file == */bin/cadre* && $file != *.so ]] || continue
    head=$(readelf -hlW "$file")
    [[ $head == *"DYN (Position-Independent"* && $head == *GNU_RELRO* && $head != *"GNU_STACK"*"RWE"* ]] ||
        { echo "$file: is not position independent, has no RELRO or an executable stack"; status=1; }
done

for file in "${files[@]}"; do
    [[ $file == */bin/cadre* || $file == */libcadre*.so* ]] || continue
    head=$(readelf -ldW "$file")
    names=$(nm -D --undefined-only "$file")
    [[ $head == *GNU_RELRO* && $head == *"(FLAGS"*NOW* ]] ||
        { echo "$file: its relocations are not bound and read-only at the start (-z relro -z now)"; status=1; }
    [[ $names == *__stack_chk_fail* && $names == *_chk@* ]] ||
        { echo "$file: has no stack protector (-fstack-protector-strong) or no _FORTIFY_SOURCE"; status=1; }
done

if [ "$(uname -m)" = x86_64 ]; then
    for library in "$folder"/lib/libcadre_{common,graph,checkpoint,ps_core,worker_core,coordinator_core,cli}.a; do
        [ -f "$library" ] || continue
        plain=$(readelf -nW "$library" 2>/dev/null |
            awk '/^File:/{if (name && !ok) print name; name = $2; ok = 0} /IBT, SHSTK/{ok = 1}
                END{if (name && !ok) print name}')
        [ -z "$plain" ] || { echo "hardening: no branch protection in $plain"; status=1; }
    done
fi
[ $status != 0 ] || echo "hardening: ${#files[@]} programs and libraries"
exit $status
