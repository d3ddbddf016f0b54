/* The number of a program where there is no xxHash: the first bytes of CZMQ's SHA-1. */
#include "common/graph/program_hash.h"

#include <czmq.h>
#include <string.h>

uint64_t
cadre_program_hash_bytes(const void *bytes, size_t size_bytes)
{
    zdigest_t *digest = zdigest_new();
    zdigest_update(digest, bytes, size_bytes);
    uint64_t hash = 0;
    memcpy(&hash, zdigest_data(digest), sizeof(hash));
    zdigest_destroy(&digest);
    return hash;
}
