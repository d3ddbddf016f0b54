#!/bin/bash
# copied_build.sh - `make` in a copy of a checkout that brought its build/ along says what to do: CMake refuses
# the copy's cache, and names neither build/ nor a way out.
set -euo pipefail
cd "$(dirname "$0")/../.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir -p "$place/build/release" "$place/deploy"
cp Makefile CMakePresets.json "$place"
printf '#!/bin/sh\n' >"$place/deploy/setup-debian.sh"
chmod +x "$place/deploy/setup-debian.sh"
echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >"$place/build/release/CMakeCache.txt"
said=$(make -C "$place" install 2>&1) && { echo "copied_build: make ended well"; exit 1; }
[[ $said == *"build/ was made in $PWD"*"make clean"* ]] || { echo "$said"; exit 1; }
