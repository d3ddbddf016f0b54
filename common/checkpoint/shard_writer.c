#include "common/checkpoint/shard_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lmdb.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/checkpoint/disk.h"
#include "common/checkpoint/lmdb_error.h"

/* Most bytes that one transaction may add to the file. That is more than its values take: a put can
 * copy the pages from the root to its leaf and split them, which for small values is more than the
 * value. */
static const size_t TRANSACTION_MAP_SIZE =
    2 * (size_t)(CADRE_SHARD_TRANSACTION_SIZE_MAX + CADRE_CHECKPOINT_CHUNK_SIZE_MAX) + (16 << 20);

/* Largest initial size of the map: the expected size is only a hint of the caller, and the map
 * grows when needed. */
static const uint64_t EXPECTED_SIZE_MAX = (uint64_t)1 << 40;

struct cadre_shard_writer {
    int directory_fd; /* borrowed */
    char *name;       /* name in that directory; NULL once the file is finished */
    char *path;       /* for messages */
    int fd;
    MDB_env *env; /* NULL once the file is finished or dropped */
    MDB_dbi dbi;
    MDB_txn *transaction;
    size_t transaction_size; /* bytes that the transaction has written, roughly */
    size_t page_size;
    size_t map_size;
    bool has_state;
    int status;       /* status of the failure that ended the file; 0 while there was none */
    char *error_text; /* its text */
};

/* Closes everything and removes the file; from now on every call fails with this status and the
 * current error text. */
static int
drop(cadre_shard_writer_t *self, int status)
{
    if (self->transaction) {
        mdb_txn_abort(self->transaction);
        self->transaction = NULL;
    }

    if (self->env) {
        mdb_env_close(self->env);
        self->env = NULL;
    }

    unlinkat(self->directory_fd, self->name, 0);
    self->status = status;
    self->error_text = cadre_strdup(cadre_error_text());
    return status;
}

/* Drops the file because an LMDB call failed with `code` when it should do `action`. */
static int
drop_lmdb(cadre_shard_writer_t *self, int code, const char *action)
{
    return drop(self, cadre_lmdb_fail(code, self->path, action));
}

/* Grows the map so that the next transaction has room for all it can write. Only between
 * transactions. */
static int
reserve_map(cadre_shard_writer_t *self)
{
    MDB_envinfo info;
    int code = mdb_env_info(self->env, &info);
    if (code != 0) {
        return drop_lmdb(self, code, "look at the file");
    }

    size_t needed = (info.me_last_pgno + 1) * self->page_size + TRANSACTION_MAP_SIZE;
    if (needed <= self->map_size) {
        return 0;
    }

    self->map_size = needed + needed / 2;
    self->map_size -= self->map_size % self->page_size;
    code = mdb_env_set_mapsize(self->env, self->map_size);
    return code == 0 ? 0 : drop_lmdb(self, code, "grow the map");
}

/* Begins a transaction, in a map that has room for it. */
static int
begin(cadre_shard_writer_t *self)
{
    int status = reserve_map(self);
    if (status != 0) {
        return status;
    }

    int code = mdb_txn_begin(self->env, NULL, 0, &self->transaction);
    if (code != 0) {
        self->transaction = NULL;
        return drop_lmdb(self, code, "begin a transaction");
    }

    self->transaction_size = 0;
    return 0;
}

/* Commits the transaction: what it has put is on disk then. */
static int
commit(cadre_shard_writer_t *self)
{
    MDB_txn *transaction = self->transaction;
    self->transaction = NULL; /* mdb_txn_commit frees it even when it fails */
    int code = mdb_txn_commit(transaction);
    return code == 0 ? 0 : drop_lmdb(self, code, "commit");
}

/* Opens the LMDB environment of the file and begins its first transaction. */
static int
open_env(cadre_shard_writer_t *self)
{
    int code = mdb_env_create(&self->env);
    if (code != 0) {
        self->env = NULL;
        return drop_lmdb(self, code, "open");
    }

    code = mdb_env_set_mapsize(self->env, self->map_size);
    if (code == 0) {
        char path[CADRE_DISK_FD_PATH_SIZE];
        code = mdb_env_open(self->env, cadre_disk_fd_path(self->fd, path),
                            MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS, 0666);
    }

    if (code != 0) {
        return drop_lmdb(self, code, "open");
    }

    int status = begin(self);
    if (status != 0) {
        return status;
    }

    code = mdb_dbi_open(self->transaction, NULL, 0, &self->dbi);
    return code == 0 ? 0 : drop_lmdb(self, code, "open");
}

/* Creates the file of a shard and opens it with LMDB; the expected size sets the size of the map.
 * */
int
cadre_shard_writer_open(int directory_fd, const char *name, const char *path,
                        uint64_t expected_size_bytes, cadre_shard_writer_t **out)
{
    /* The file is created here, because LMDB would open an existing one, or follow a link. */
    int fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    (mode_t)0666);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot create %s", path);
    }

    cadre_auto(cadre_shard_writer_destroy) cadre_shard_writer_t *self =
        cadre_calloc(1, sizeof(*self));
    self->directory_fd = directory_fd;
    self->name = cadre_strdup(name);
    self->path = cadre_strdup(path);
    self->fd = fd;
    self->page_size = (size_t)sysconf(_SC_PAGESIZE);
    if (expected_size_bytes > EXPECTED_SIZE_MAX) {
        expected_size_bytes = EXPECTED_SIZE_MAX;
    }

    self->map_size = expected_size_bytes + expected_size_bytes / 8 + TRANSACTION_MAP_SIZE;
    self->map_size -= self->map_size % self->page_size;

    int status = open_env(self);
    if (status != 0) {
        return status;
    }

    *out = self;
    self = NULL;
    return 0;
}

/* Reserves `value_size` bytes under `key`, after a commit if the transaction would become too
 * large. The caller fills *value before the next call. */
static int
reserve(cadre_shard_writer_t *self, const void *key, size_t key_size, size_t value_size,
        void **value)
{
    if (self->status != 0) {
        return cadre_fail(self->status, "%s", self->error_text);
    }

    if (self->transaction_size + value_size > CADRE_SHARD_TRANSACTION_SIZE_MAX) {
        int status = commit(self);
        if (status != 0) {
            return status;
        }
        status = begin(self);
        if (status != 0) {
            return status;
        }
    }

    MDB_val lmdb_key = {.mv_size = key_size, .mv_data = (void *)key};
    MDB_val lmdb_value = {.mv_size = value_size};
    int code = mdb_put(self->transaction, self->dbi, &lmdb_key, &lmdb_value,
                       MDB_RESERVE | MDB_NOOVERWRITE);
    if (code == MDB_KEYEXIST) { /* nothing was changed in the transaction */
        return cadre_lmdb_fail(code, self->path, "put a record twice");
    }
    if (code != 0) {
        return drop_lmdb(self, code, "put a record");
    }

    /* Roughly: a page for the key, one for a split, and the value. */
    self->transaction_size += 2 * self->page_size + value_size;
    *value = lmdb_value.mv_data;
    return 0;
}

/* Adds the record of a chunk: its header, then a copy of its bytes. */
int
cadre_shard_writer_put_chunk(cadre_shard_writer_t *self, const cadre_shard_chunk_t *chunk)
{
    int status = cadre_shard_chunk_check(chunk);
    if (status != 0) {
        return status;
    }

    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t key_size =
        cadre_shard_key_encode(chunk->variable, chunk->kind, chunk->first_element, key);
    void *value;
    status = reserve(self, key, key_size, CADRE_SHARD_HEADER_SIZE + chunk->size_bytes, &value);
    if (status != 0) {
        return status;
    }

    cadre_shard_header_encode(chunk, key, key_size, value);
    if (chunk->size_bytes > 0) {
        memcpy((uint8_t *)value + CADRE_SHARD_HEADER_SIZE, chunk->bytes, chunk->size_bytes);
    }

    return 0;
}

/* Adds the description of a table. */
int
cadre_shard_writer_put_table(cadre_shard_writer_t *self, const char *variable,
                             const cadre_table_record_t *record)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t key_size = cadre_shard_key_encode(variable, CADRE_CHECKPOINT_KIND_TABLE, 0, key);
    void *value;
    int status = reserve(self, key, key_size, CADRE_TABLE_RECORD_SIZE, &value);
    if (status != 0) {
        return status;
    }

    cadre_table_record_encode(record, key, key_size, value);
    return 0;
}

/* Adds a page of a table, or its counters: a header, then a copy of the bytes. */
int
cadre_shard_writer_put_page(cadre_shard_writer_t *self, const char *variable, const char *kind,
                            const cadre_table_page_t *page)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t key_size = cadre_shard_key_encode(variable, kind, (int64_t)page->position, key);
    void *value;
    int status = reserve(self, key, key_size, CADRE_PAGE_HEADER_SIZE + page->size_bytes, &value);
    if (status != 0) {
        return status;
    }

    memcpy((uint8_t *)value + CADRE_PAGE_HEADER_SIZE, page->bytes, page->size_bytes);
    cadre_table_page_encode(key, key_size, page->bytes, page->size_bytes, value);
    return 0;
}

/* Adds the record of the shard's state, once. */
int
cadre_shard_writer_put_state(cadre_shard_writer_t *self, const cadre_shard_state_t *state)
{
    uint8_t key[CADRE_SHARD_KEY_SIZE_MAX];
    size_t key_size = cadre_shard_state_key_encode(key);
    void *value;
    int status = reserve(self, key, key_size, CADRE_SHARD_STATE_SIZE, &value);
    if (status != 0) {
        return status;
    }

    cadre_shard_state_encode(state, value);
    self->has_state = true;
    return 0;
}

/* Syncs the file, which LMDB has closed, and reads it again for its size and hash. */
static int
sync_and_hash(const cadre_shard_writer_t *self, const cadre_give_up_t *give_up,
              uint64_t *size_bytes, uint64_t *hash)
{
    int status = cadre_disk_sync(self->fd, self->path);
    if (status != 0) {
        return status;
    }
    return cadre_disk_hash(self->fd, self->path, false, give_up, size_bytes, hash);
}

/* Finishes the file: commits, closes, syncs, and reads it again for its size and hash. Ends the
 * writer; on failure the file is removed. */
int
cadre_shard_writer_close(cadre_shard_writer_t **self_p, const cadre_give_up_t *give_up,
                         uint64_t *size_bytes, uint64_t *hash)
{
    cadre_auto(cadre_shard_writer_destroy) cadre_shard_writer_t *self = *self_p;
    *self_p = NULL;
    if (self->status != 0) {
        return cadre_fail(self->status, "%s", self->error_text);
    }
    if (!self->has_state) {
        return cadre_fail(CADRE_ESTATE, "%s: the shard's state was not put", self->path);
    }

    int status = commit(self);
    if (status != 0) {
        return status;
    }

    mdb_env_close(self->env);
    self->env = NULL;
    status = sync_and_hash(self, give_up, size_bytes, hash);
    if (status != 0) {
        return drop(self, status);
    }

    free(self->name); /* finished: destroy has nothing left to remove */
    self->name = NULL;
    return 0;
}

/* Frees the writer. A file that is not finished is removed. */
void
cadre_shard_writer_destroy(cadre_shard_writer_t **self_p)
{
    cadre_shard_writer_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    /* Finishing clears `name`; a failure (`status`) has removed the file already. */
    if (self->name && self->status == 0) {
        drop(self, CADRE_ECANCELLED);
    }

    cadre_disk_close(&self->fd);
    free(self->name);
    free(self->path);
    free(self->error_text);
    free(self);
}
