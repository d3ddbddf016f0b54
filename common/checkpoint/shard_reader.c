#include "common/checkpoint/shard_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lmdb.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/checkpoint/btree_check.h"
#include "common/checkpoint/disk.h"
#include "common/checkpoint/lmdb_error.h"

struct cadre_shard_reader {
    char *path;
    MDB_env *env;
    MDB_txn *transaction; /* read-only, for the reader's whole life */
    MDB_dbi dbi;
    MDB_cursor *cursor;
    pthread_mutex_t lock; /* guards transaction and cursor while several threads read */
};

/* Reads the file through `fd` and checks its size, hash and pages, before any of it is mapped. */
static int
verify_file(int fd, const cadre_shard_reader_file_t *file, const cadre_give_up_t *give_up)
{
    struct stat about;
    if (fstat(fd, &about) != 0) {
        return cadre_disk_fail(errno, "cannot look at %s", file->path);
    }

    /* Compared before the file is read, which may be far larger. */
    uint64_t found_size = (uint64_t)about.st_size;
    uint64_t found_hash = 0;
    if (found_size == file->size_bytes) {
        int status = cadre_disk_hash(fd, file->path, true, give_up, &found_size, &found_hash);
        if (status != 0) {
            return status;
        }
    }

    if (found_size != file->size_bytes) {
        return cadre_fail(CADRE_ECORRUPT, "%s has %llu bytes instead of %llu", file->path,
                          (unsigned long long)found_size, (unsigned long long)file->size_bytes);
    }

    if (found_hash != file->hash) {
        return cadre_fail(CADRE_ECORRUPT, "%s: the hash does not match", file->path);
    }

    return cadre_btree_check(fd, file->path, file->size_bytes);
}

/* Maps the file that was verified, through its descriptor: another file may have its name by
 * now. */
static int
open_env(cadre_shard_reader_t *self, int verified_fd, uint64_t size_bytes)
{
    int code = mdb_env_create(&self->env);
    if (code != 0) {
        self->env = NULL;
        return cadre_lmdb_fail(code, self->path, "open");
    }

    code = mdb_env_set_mapsize(self->env, size_bytes);
    if (code == 0) {
        char path[CADRE_DISK_FD_PATH_SIZE];
        /* No lock file: nobody writes a finished file, and its directory may be read-only. */
        code = mdb_env_open(self->env, cadre_disk_fd_path(verified_fd, path),
                            MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0);
    }

    if (code != 0) {
        return cadre_lmdb_fail(code, self->path, "open");
    }

    code = mdb_txn_begin(self->env, NULL, MDB_RDONLY, &self->transaction);
    if (code == 0) {
        code = mdb_dbi_open(self->transaction, NULL, 0, &self->dbi);
    }
    if (code == 0) {
        code = mdb_cursor_open(self->transaction, self->dbi, &self->cursor);
    }

    return code == 0 ? 0 : cadre_lmdb_fail(code, self->path, "open");
}

/* Verifies the file of a shard, and opens it. */
int
cadre_shard_reader_open(const cadre_shard_reader_file_t *file, const cadre_give_up_t *give_up,
                        cadre_shard_reader_t **out)
{
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = cadre_disk_open(file->directory_fd, file->name, file->path, &fd);
    if (status != 0) {
        return status;
    }

    status = verify_file(fd, file, give_up);
    if (status != 0) {
        return status;
    }

    cadre_auto(cadre_shard_reader_destroy) cadre_shard_reader_t *self =
        cadre_calloc(1, sizeof(*self));
    self->path = cadre_strdup(file->path);
    pthread_mutex_init(&self->lock, NULL);
    status = open_env(self, fd, file->size_bytes);
    if (status != 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Closes the file and frees the reader, also one that was opened only in part. */
void
cadre_shard_reader_destroy(cadre_shard_reader_t **self_p)
{
    cadre_shard_reader_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    if (self->cursor) {
        mdb_cursor_close(self->cursor);
    }
    if (self->transaction) {
        mdb_txn_abort(self->transaction);
    }
    if (self->env) {
        mdb_env_close(self->env);
    }

    pthread_mutex_destroy(&self->lock);
    free(self->path);
    free(self);
}

/* Reads and checks the record of the shard's state. */
int
cadre_shard_reader_state(cadre_shard_reader_t *self, cadre_shard_state_t *out)
{
    uint8_t bytes[CADRE_SHARD_KEY_SIZE_MAX];
    MDB_val key = {.mv_size = cadre_shard_state_key_encode(bytes), .mv_data = bytes};
    MDB_val value;
    int code = mdb_get(self->transaction, self->dbi, &key, &value);
    if (code == MDB_NOTFOUND) {
        return cadre_fail(CADRE_ECORRUPT, "%s: the shard's state is missing", self->path);
    }
    if (code != 0) {
        return cadre_lmdb_fail(code, self->path, "read");
    }

    int status = cadre_shard_state_decode(value.mv_data, value.mv_size, out);
    return status == 0 ? 0 : cadre_fail_within(status, "%s", self->path);
}

/* A place in the tree: at a record, or past the last one. */
typedef struct {
    bool end;
    MDB_val key;
    MDB_val value;
} place_t;

/* Moves the cursor, and gives the record there; place->end when there is none. */
static int
move(cadre_shard_reader_t *self, MDB_cursor_op operation, place_t *place)
{
    int code = mdb_cursor_get(self->cursor, &place->key, &place->value, operation);
    place->end = code == MDB_NOTFOUND;
    return code == 0 || place->end ? 0 : cadre_lmdb_fail(code, self->path, "read");
}

/* Returns whether the record at `place` is the shard's state, not a chunk. */
static bool
is_state(const place_t *place)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t size = cadre_shard_state_key_encode(key);
    return place->key.mv_size == size && memcmp(place->key.mv_data, key, size) == 0;
}

/* Returns whether the record at `place` is no chunk: the shard's state, or of a table. */
static bool
is_no_chunk(const place_t *place)
{
    return is_state(place) || cadre_table_key_is(place->key.mv_data, place->key.mv_size);
}

/* Decodes the record at `place` without hashing it, and tells in *mine whether it is a chunk of the
 * range's variable and kind. */
static int
peek(const cadre_shard_reader_t *self, const place_t *place, const cadre_checkpoint_range_t *range,
     cadre_shard_chunk_t *chunk, bool *mine)
{
    *mine = false;
    if (place->end || is_no_chunk(place)) {
        return 0;
    }

    int status = cadre_shard_record_peek(place->key.mv_data, place->key.mv_size,
                                         place->value.mv_data, place->value.mv_size, chunk);
    if (status != 0) {
        return cadre_fail_within(status, "%s", self->path);
    }

    *mine = strcmp(chunk->variable, range->variable) == 0 && strcmp(chunk->kind, range->kind) == 0;
    return 0;
}

/* Moves to the first record of the range's variable and kind that may hold its first element: the
 * last one that starts at or before it, else the first one after it. */
static int
seek(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range, place_t *place)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    place->key.mv_size =
        cadre_shard_key_encode(range->variable, range->kind, range->first_element, key);
    place->key.mv_data = key;
    int status = move(self, MDB_SET_RANGE, place);
    cadre_shard_chunk_t chunk;
    bool mine = false;
    if (status == 0) {
        status = peek(self, place, range, &chunk, &mine);
    }
    if (status != 0 || (mine && chunk.first_element == range->first_element)) {
        return status;
    }

    /* The record before that one may reach over the range's first element. */
    place_t before;
    status = move(self, place->end ? MDB_LAST : MDB_PREV, &before);
    if (status != 0) {
        return status;
    }

    status = peek(self, &before, range, &chunk, &mine);
    if (status != 0) {
        return status;
    }

    if (mine && chunk.first_element + cadre_shard_chunk_count(&chunk) > range->first_element) {
        *place = before;
        return 0;
    }

    /* Back to the record after it. */
    return before.end ? move(self, MDB_FIRST, place) : move(self, MDB_NEXT, place);
}

/* Copies the range's elements from *next on that the record at `place` holds, and moves *next
 * behind them. */
static int
copy(const place_t *place, const cadre_checkpoint_range_t *range, int64_t *next, void *out,
     cadre_change_counts_t *counts)
{
    cadre_shard_chunk_t chunk;
    int status = cadre_shard_record_decode(place->key.mv_data, place->key.mv_size,
                                           place->value.mv_data, place->value.mv_size, &chunk);
    if (status != 0) {
        return status;
    }

    if (chunk.dtype != range->dtype) {
        return cadre_fail(CADRE_EDTYPE, "%s %s was written as %s, not %s", chunk.variable,
                          chunk.kind, cadre_dtype_text(chunk.dtype),
                          cadre_dtype_text(range->dtype));
    }

    int64_t end = range->first_element + range->count;
    int64_t chunk_end = chunk.first_element + cadre_shard_chunk_count(&chunk);
    int64_t count = cadre_min_i64(chunk_end, end) - *next;
    size_t element_size = cadre_dtype_size(chunk.dtype);
    const uint8_t *from =
        (const uint8_t *)chunk.bytes + (size_t)(*next - chunk.first_element) * element_size;
    memcpy((uint8_t *)out + (size_t)(*next - range->first_element) * element_size, from,
           (size_t)count * element_size);
    *next += count;
    cadre_shard_chunk_count_changes(&chunk, counts);
    return 0;
}

/* Fails because element `next` was not found: with CADRE_ENOTFOUND if the file has no element of
 * this variable and kind, else with CADRE_ECORRUPT, since some are there. */
static int
fail_missing(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range, int64_t next)
{
    cadre_checkpoint_range_t all = *range; /* to look for any element of this kind */
    all.first_element = 0;
    place_t place;
    int status = seek(self, &all, &place);
    cadre_shard_chunk_t chunk;
    bool mine = false;

    if (status != 0) {
        return status;
    }

    status = peek(self, &place, &all, &chunk, &mine);
    if (status != 0) {
        return status;
    }

    if (!mine) {
        return cadre_fail(CADRE_ENOTFOUND, "%s holds no %s of %s", self->path, range->kind,
                          range->variable);
    }

    return cadre_fail(CADRE_ECORRUPT, "%s: %s %s: element %lld is missing", self->path,
                      range->variable, range->kind, (long long)next);
}

/* Finds the record that holds the range's element `next`. The record stays valid: the file is
 * mapped for reading, and the transaction lasts as long as the reader. */
static int
locate(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range, int64_t next,
       place_t *place)
{
    cadre_checkpoint_range_t rest = *range;
    rest.first_element = next;
    cadre_shard_chunk_t chunk;
    bool mine = false;
    int status = seek(self, &rest, place);
    if (status != 0) {
        return status;
    }

    status = peek(self, place, range, &chunk, &mine);
    if (status != 0) {
        return status;
    }

    bool holds = mine && chunk.first_element <= next &&
                 chunk.first_element + cadre_shard_chunk_count(&chunk) > next;
    return holds ? 0 : fail_missing(self, range, next);
}

/* Copies a range of elements to `out`, record by record. Only finding a record needs the lock,
 * since all threads share one cursor; the mapped record itself does not change. */
int
cadre_shard_reader_read(cadre_shard_reader_t *self, const cadre_checkpoint_range_t *range,
                        void *out, cadre_change_counts_t *counts)
{
    cadre_assert(range->first_element >= 0 && range->count >= 0 &&
                 range->count <= INT64_MAX - range->first_element);
    int64_t next = range->first_element;
    int64_t end = range->first_element + range->count;
    cadre_change_counts_t newest = {0};

    while (next < end) {
        place_t place;
        pthread_mutex_lock(&self->lock);
        int status = locate(self, range, next, &place);
        pthread_mutex_unlock(&self->lock);
        if (status != 0) {
            return status;
        }
        status = copy(&place, range, &next, out, &newest);
        if (status != 0) {
            return cadre_fail_within(status, "%s", self->path);
        }
    }

    if (counts) {
        *counts = newest;
    }

    return 0;
}

/* Calls `visit` for every chunk in the order of keys, after its hash was checked. Ends with the
 * first status that is not 0. */
int
cadre_shard_reader_each(cadre_shard_reader_t *self,
                        int (*visit)(void *context, const cadre_shard_chunk_t *chunk),
                        void *context)
{
    place_t place;
    int status = move(self, MDB_FIRST, &place);
    while (status == 0 && !place.end) {
        if (!is_no_chunk(&place)) {
            cadre_shard_chunk_t chunk;
            status = cadre_shard_record_decode(place.key.mv_data, place.key.mv_size,
                                               place.value.mv_data, place.value.mv_size, &chunk);
            if (status != 0) {
                return cadre_fail_within(status, "%s", self->path);
            }
            status = visit(context, &chunk);
        }

        if (status == 0) {
            status = move(self, MDB_NEXT, &place);
        }
    }

    return status;
}

/* --- tables --- */

/* Finds the record of this kind and position of a table. CADRE_ENOTFOUND. */
static int
find_record(cadre_shard_reader_t *self, const char *variable, const char *kind, place_t *place,
            uint8_t bytes[CADRE_SHARD_KEY_SIZE_MAX])
{
    place->key =
        (MDB_val){.mv_size = cadre_shard_key_encode(variable, kind, 0, bytes), .mv_data = bytes};
    int code = mdb_get(self->transaction, self->dbi, &place->key, &place->value);
    if (code == MDB_NOTFOUND) {
        return cadre_fail(CADRE_ENOTFOUND, "%s holds no table %s", self->path, variable);
    }
    return code == 0 ? 0 : cadre_lmdb_fail(code, self->path, "read");
}

int
cadre_shard_reader_table(cadre_shard_reader_t *self, const char *variable,
                         cadre_table_record_t *record)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    place_t place;
    int status = find_record(self, variable, CADRE_CHECKPOINT_KIND_TABLE, &place, key);
    if (status != 0) {
        return status;
    }
    status = cadre_table_record_decode(place.key.mv_data, place.key.mv_size, place.value.mv_data,
                                       place.value.mv_size, record);
    return status == 0 ? 0 : cadre_fail_within(status, "%s: %s", self->path, variable);
}

/* Returns whether two keys differ in nothing but the position at their end. */
static bool
is_same_kind(const MDB_val *left, const MDB_val *right)
{
    return left->mv_size == right->mv_size &&
           memcmp(left->mv_data, right->mv_data, left->mv_size - sizeof(uint64_t)) == 0;
}

int
cadre_shard_reader_each_page(cadre_shard_reader_t *self, const char *variable, const char *kind,
                             int (*visit)(void *context, const cadre_table_page_t *page),
                             void *context)
{
    uint8_t bytes[CADRE_SHARD_KEY_SIZE_MAX];
    const MDB_val first = {.mv_size = cadre_shard_key_encode(variable, kind, 0, bytes),
                           .mv_data = bytes};
    place_t place = {.key = first};
    int status = move(self, MDB_SET_RANGE, &place);
    while (status == 0 && !place.end && is_same_kind(&place.key, &first)) {
        cadre_table_page_t page;
        status = cadre_table_page_decode(place.key.mv_data, place.key.mv_size, place.value.mv_data,
                                         place.value.mv_size, &page);
        if (status != 0) {
            return cadre_fail_within(status, "%s: %s", self->path, variable);
        }
        status = visit(context, &page);
        if (status == 0) {
            status = move(self, MDB_NEXT, &place);
        }
    }
    return status;
}
