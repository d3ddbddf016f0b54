/*
 * program_hash - the number that an encoded program is known by: XXH3 of its bytes.
 *
 * A file of its own, because a build of the devices alone (CADRE_DEVICE_ONLY) has no xxHash and
 * takes another one, which stays in its process.
 *
 * A plain function. Thread: any.
 */
#ifndef CADRE_COMMON_GRAPH_PROGRAM_HASH_H
#define CADRE_COMMON_GRAPH_PROGRAM_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t cadre_program_hash_bytes(const void *bytes, size_t size_bytes);

#endif
