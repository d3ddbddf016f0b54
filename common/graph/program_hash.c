#include "common/graph/program_hash.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

uint64_t
cadre_program_hash_bytes(const void *bytes, size_t size_bytes)
{
    return XXH3_64bits(bytes, size_bytes);
}
