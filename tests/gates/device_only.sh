#!/bin/bash
# device_only.sh - what is built with CADRE_DEVICE_ONLY includes none of the libraries of a cluster: machines with a
# GPU and little else lack them (tests/gpu/run).
cd "$(dirname "$0")/../.." || exit 1
found=$(grep -nE '#include <(jansson|xxhash|zlib|zstd|lmdb)\.h>' common/{base,system,tensor,spec,wire,keys,net,http,session}/*.[ch] \
    common/include/cadre/*.h common/graph/*.[ch] worker/device/*.[ch] worker/device/cuda/*.[ch] tests/gpu/*.[ch] \
    bench/gpu/*.[ch] bench/measure.[ch] |
    grep -vE '^(common/keys/(allowed_keys|peer_key)\.c|common/net/cluster_config\.c|common/spec/data_(column|spec)\.c|common/base/name_map\.c|common/graph/program_hash\.c|bench/gpu/ps_main\.c):')
[ -z "$found" ] || { echo "$found: not in a build of the devices alone"; exit 1; }
