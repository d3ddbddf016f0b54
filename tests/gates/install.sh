#!/bin/bash
# install.sh BUILD_FOLDER - an installed Cadre is enough to build the example programs, through
# pkg-config and through CMake, and to compile the program in README.md; what is installed is hardened.
set -euo pipefail
build=$1
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

cmake --install "$build" --prefix "$place/prefix" >"$place/log" 2>&1 || { cat "$place/log"; exit 1; }
tests/gates/hardening.sh "$place/prefix"
other=$(find "$place/prefix/include" -type f ! -name '*.h')
[ -z "$other" ] || { echo "install: no headers: $other"; exit 1; }
pc=$(find "$place/prefix" -name cadre.pc)
libraries=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}

awk '/^```c$/{inside = 1; next} /^```$/{inside = 0} inside' README.md >"$place/readme.c"
[ -s "$place/readme.c" ] || { echo "install: README.md shows no program"; exit 1; }
# shellcheck disable=SC2046
gcc -std=c11 -Wall -Wextra -Werror -c "$place/readme.c" -o "$place/readme.o" \
    $(pkg-config --cflags cadre)

programs=()
for file in examples/*.c; do
    [[ ! -f $file || $file == *_native.c ]] || programs+=("$file")
done
if [ ${#programs[@]} = 0 ]; then
    printf '#include <cadre/status.h>\nint main(void)\n{\n    return cadre_status_text(0) == 0;\n}\n' \
        >"$place/small.c"
    programs=("$place/small.c")
fi
mkdir "$place/user"
{
    echo 'cmake_minimum_required(VERSION 3.25)'
    echo 'project(user LANGUAGES C)'
    echo 'find_package(cadre 0.2 REQUIRED)'
} >"$place/user/CMakeLists.txt"
for program in "${programs[@]}"; do
    stem=$(basename "$program" .c)
    # shellcheck disable=SC2046
    gcc -std=c11 -D_GNU_SOURCE -Wall -Werror "$program" -o "$place/$stem" \
        $(pkg-config --cflags --libs cadre) -lm
    # Not `ldd | grep -q`: grep ends at the first match, and ldd then dies of a broken pipe.
    linked=$(LD_LIBRARY_PATH=$libraries ldd "$place/$stem")
    [[ $linked == *"libcadre.so"*" => $place"* ]] ||
        { echo "install: $stem does not find libcadre" >&2; exit 1; }
    echo "add_executable($stem $(realpath "$program"))"
    echo "target_compile_definitions($stem PRIVATE _GNU_SOURCE)"
    echo "target_link_libraries($stem cadre::cadre m)"
done >>"$place/user/CMakeLists.txt"
cmake -S "$place/user" -B "$place/user/build" -G Ninja -DCMAKE_PREFIX_PATH="$place/prefix" \
    >"$place/log" 2>&1 && cmake --build "$place/user/build" >>"$place/log" 2>&1 ||
    { cat "$place/log"; exit 1; }
echo "install: ${#programs[@]} programs built twice"
