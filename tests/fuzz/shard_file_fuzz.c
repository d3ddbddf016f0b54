/*
 * Shard files as untrusted bytes, with the right hashes, which anybody can compute. The first byte
 * chooses: a whole file, which is read through LMDB once its tree was checked; or one record, key
 * and value.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/checkpoint/disk.h"
#include "common/checkpoint/shard_reader.h"

enum { RECORD = 'r', HASH_END = CADRE_SHARD_HEADER_SIZE, HASH_AT = HASH_END - 8, READ_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

static int
look_at(void *context, const cadre_shard_chunk_t *chunk)
{
    uint64_t *sum = context;
    *sum += chunk->size_bytes > 0 ? ((const uint8_t *)chunk->bytes)[chunk->size_bytes - 1] : 0;
    return 0;
}

/* The reader opens a file by its name. */
static void
read_file(const uint8_t *bytes, size_t size_bytes)
{
    static char path[64];
    if (!*path) {
        snprintf(path, sizeof(path), "%s/cadre-fuzz-%d.mdb",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
    }
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cadre_assert(fd >= 0 && write(fd, bytes, size_bytes) == (ssize_t)size_bytes);
    uint64_t written_bytes = 0;
    uint64_t hash = 0;
    cadre_assert(cadre_disk_hash(fd, path, false, NULL, &written_bytes, &hash) == 0);
    close(fd);
    cadre_shard_reader_t *reader = NULL;
    const cadre_shard_reader_file_t file = {AT_FDCWD, path, path, written_bytes, hash};
    if (cadre_shard_reader_open(&file, NULL, &reader) == 0) {
        cadre_shard_state_t state;
        uint64_t sum = 0;
        cadre_shard_reader_state(reader, &state);
        cadre_shard_reader_each(reader, look_at, &sum);
        for (int64_t first = 0; first < 8; first += 3) {
            float values[READ_MAX];
            cadre_checkpoint_range_t range = {"w1", CADRE_CHECKPOINT_KIND_VALUE, CADRE_F32, first,
                                              READ_MAX >> first};
            cadre_shard_reader_read(reader, &range, values, NULL);
        }
        cadre_shard_reader_destroy(&reader);
    }
    unlink(path);
}

/* A record whose hash is right: one byte says how long the key is. */
static void
read_record(const uint8_t *bytes, size_t size_bytes)
{
    size_t key_size = size_bytes > 0 ? bytes[0] : 0;
    if (size_bytes < 1 + key_size) {
        return;
    }
    const uint8_t *key = bytes + 1;
    size_t value_size = size_bytes - 1 - key_size;
    cadre_auto(cadre_free) uint8_t *value = cadre_calloc(1, value_size + 1);
    memcpy(value, key + key_size, value_size);
    cadre_shard_chunk_t chunk;
    cadre_shard_state_t state;
    if (value_size >= HASH_END) {
        XXH3_state_t *hash =
            XXH3_createState(); /* as shard_file.c: key, header but the hash, bytes */
        XXH3_64bits_reset(hash);
        XXH3_64bits_update(hash, key, key_size);
        XXH3_64bits_update(hash, value, HASH_AT);
        XXH3_64bits_update(hash, value + HASH_END, value_size - HASH_END);
        uint64_t digest = XXH3_64bits_digest(hash);
        memcpy(value + HASH_AT, &digest, sizeof(digest));
        XXH3_freeState(hash);
    }
    if (cadre_shard_record_decode(key, key_size, value, value_size, &chunk) == 0) {
        cadre_assert(cadre_shard_chunk_check(&chunk) == 0);
        cadre_assert(cadre_shard_chunk_count(&chunk) >= 0);
    }
    cadre_shard_record_peek(key, key_size, value, value_size, &chunk);
    cadre_shard_state_decode(value, value_size, &state);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes)
{
    if (size_bytes > 1 && bytes[0] == RECORD) {
        read_record(bytes + 1, size_bytes - 1);
    } else if (size_bytes > 1) {
        read_file(bytes + 1, size_bytes - 1);
    }
    return 0;
}
