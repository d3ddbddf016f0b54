#include "common/checkpoint/checkpoint_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"

struct cadre_checkpoint_draft {
    cadre_checkpoint_directory_t *directory; /* borrowed */
    uint64_t id;
    /* Name of the temporary directory; "" once it is renamed into place. */
    char name[CADRE_CHECKPOINT_TEMPORARY_SIZE];
    char *path;
};

/* Fails with CADRE_EEXISTS when checkpoint `id` exists. */
static int
refuse_existing(const cadre_checkpoint_directory_t *directory, uint64_t id)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    struct stat about;
    cadre_checkpoint_name(id, name);
    if (fstatat(cadre_checkpoint_directory_fd(directory), name, &about, AT_SYMLINK_NOFOLLOW) == 0) {
        return cadre_fail(CADRE_EEXISTS, "%s/%s exists", cadre_checkpoint_directory_path(directory),
                          name);
    }
    return errno == ENOENT ? 0
                           : cadre_disk_fail(errno, "cannot look at %s/%s",
                                             cadre_checkpoint_directory_path(directory), name);
}

/* Makes a temporary directory with a random name that was never used: a ps of an earlier
 * coordinator may still be writing into, and removing files from, its draft of the same
 * checkpoint. */
static int
make_temporary(cadre_checkpoint_draft_t *self)
{
    for (unsigned i = 0; i < CADRE_CHECKPOINT_TEMPORARIES_MAX; i++) {
        uint32_t n = i;
        if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != (ssize_t)sizeof(n)) {
            n = i; /* no random numbers: so early after the machine's start there is no such ps */
        }
        cadre_checkpoint_temporary_name(self->id, n, self->name);
        if (mkdirat(cadre_checkpoint_directory_fd(self->directory), self->name, 0777) == 0) {
            return 0;
        }
        if (errno != EEXIST) {
            break;
        }
    }

    return cadre_disk_fail(errno, "cannot create %s/%s",
                           cadre_checkpoint_directory_path(self->directory), self->name);
}

/* Starts checkpoint `id` in a temporary directory of its own. An id of more than 63 bits could not
 * be written into the manifest's JSON. */
int
cadre_checkpoint_draft_begin(cadre_checkpoint_directory_t *directory, uint64_t id,
                             cadre_checkpoint_draft_t **out)
{
    if (id > INT64_MAX) {
        return cadre_fail(CADRE_EINVALID, "a checkpoint's id does not fit 63 bits");
    }

    int status = refuse_existing(directory, id);
    if (status != 0) {
        return status;
    }

    cadre_checkpoint_draft_t *self = cadre_calloc(1, sizeof(*self));
    self->directory = directory;
    self->id = id;
    status = make_temporary(self);
    if (status != 0) {
        free(self);
        return status;
    }

    self->path = cadre_asprintf("%s/%s", cadre_checkpoint_directory_path(directory), self->name);
    *out = self;
    return 0;
}

const char *
cadre_checkpoint_draft_path(const cadre_checkpoint_draft_t *self)
{
    return self->path;
}

/* Ends a draft: removes its temporary directory, unless that was renamed into place. */
void
cadre_checkpoint_draft_abort(cadre_checkpoint_draft_t **self_p)
{
    cadre_checkpoint_draft_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    if (self->name[0]) {
        /* Files that cannot be removed now are removed by clean later. The caller's own error text
         * stays. */
        cadre_auto(cadre_free) char *text = cadre_strdup(cadre_error_text());
        cadre_checkpoint_directory_remove(self->directory, self->name);
        cadre_fail(CADRE_ECANCELLED, "%s", text);
    }

    free(self->path);
    free(self);
}

/* Checks that the file of a shard exists with the reported size, and syncs it. */
static int
check_file(const cadre_checkpoint_draft_t *self, int fd, const cadre_manifest_shard_t *shard)
{
    cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, shard->file);
    cadre_auto(cadre_disk_close) int file_fd = -1;
    int status = cadre_disk_open(fd, shard->file, path, &file_fd);
    struct stat about;

    if (status != 0) {
        return status;
    }
    if (fstat(file_fd, &about) != 0) {
        return cadre_disk_fail(errno, "cannot look at %s", path);
    }

    if ((uint64_t)about.st_size != shard->size_bytes) {
        return cadre_fail(CADRE_ECORRUPT, "%s has %lld bytes instead of %llu", path,
                          (long long)about.st_size, (unsigned long long)shard->size_bytes);
    }

    return cadre_disk_sync(file_fd, path);
}

/* Checks that a manifest is of this draft: its id, and the names of the shards' files. */
static int
check_manifest(const cadre_checkpoint_draft_t *self, const cadre_manifest_t *manifest)
{
    char name[CADRE_CHECKPOINT_NAME_SIZE];
    if (manifest->id != self->id) {
        return cadre_fail(CADRE_EINVALID, "%s: the manifest is of checkpoint %llu", self->path,
                          (unsigned long long)manifest->id);
    }

    for (size_t k = 0; k < manifest->shard_count; k++) {
        const char *file = manifest->shards[k].file;
        if (!file || strcmp(file, cadre_checkpoint_shard_name((uint32_t)k, name)) != 0) {
            return cadre_fail(CADRE_EINVALID, "%s: the file of shard %zu must be %s", self->path, k,
                              name);
        }
    }

    return 0;
}

/* Does all of a commit except the rename: checks, writes the manifest, syncs. */
static int
finish(const cadre_checkpoint_draft_t *self, const cadre_manifest_t *manifest)
{
    cadre_auto(cadre_disk_close) int fd = -1;
    int status = check_manifest(self, manifest);
    if (status < 0) {
        return status;
    }

    status = cadre_checkpoint_directory_enter(self->directory, self->name, &fd);
    if (status < 0) {
        return status;
    }

    for (size_t k = 0; k < manifest->shard_count; k++) {
        status = check_file(self, fd, &manifest->shards[k]);
        if (status < 0) {
            return status;
        }
    }

    return cadre_manifest_write(manifest, fd, self->path);
}

/* Commits a draft, and ends it in any case: the rename to its final name makes the checkpoint
 * visible as a whole. */
int
cadre_checkpoint_draft_commit(cadre_checkpoint_draft_t **self_p, const cadre_manifest_t *manifest)
{
    cadre_auto(cadre_checkpoint_draft_abort) cadre_checkpoint_draft_t *self = *self_p;
    *self_p = NULL;
    int status = finish(self, manifest);
    if (status != 0) {
        return status;
    }

    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_checkpoint_name(self->id, name);
    int fd = cadre_checkpoint_directory_fd(self->directory);
    if (renameat(fd, self->name, fd, name) != 0) {
        return cadre_disk_fail(errno, "cannot rename %s to %s", self->path, name);
    }

    status = cadre_disk_sync_directory(fd, cadre_checkpoint_directory_path(self->directory));
    /* If the last sync failed, the rename is taken back: a checkpoint whose name may not be on disk
     * must not count. */
    if (status == 0 || renameat(fd, name, fd, self->name) != 0) {
        self->name[0] = '\0'; /* it has its final name: the end of the draft removes nothing */
    }

    return status;
}
