#include "common/checkpoint/checkpoint_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader_internal.h"
#include "common/checkpoint/disk.h"
#include "common/tensor/tensor.h"

static int
compare_variables(const void *left, const void *right)
{
    const cadre_manifest_variable_t *const *a = left;
    const cadre_manifest_variable_t *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

int
cadre_checkpoint_reader_open(const char *path, cadre_checkpoint_reader_t **out)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }
    return cadre_checkpoint_reader_open_in(&fd, path, out);
}

int
cadre_checkpoint_reader_open_in(int *directory_fd_p, const char *path,
                                cadre_checkpoint_reader_t **out)
{
    cadre_auto(cadre_checkpoint_reader_destroy) cadre_checkpoint_reader_t *self =
        cadre_calloc(1, sizeof(*self));
    self->directory_fd = *directory_fd_p;
    *directory_fd_p = -1;
    self->path = cadre_strdup(path);
    cadre_manifest_t *manifest = &self->manifest;
    int status = cadre_manifest_read(self->directory_fd, path, manifest);
    if (status != 0) {
        return status;
    }

    self->shards = cadre_calloc(manifest->shard_count, sizeof(*self->shards));
    self->by_name = cadre_calloc(manifest->variable_count, sizeof(*self->by_name));
    for (size_t i = 0; i < manifest->variable_count; i++) {
        self->by_name[i] = &manifest->variables[i];
    }

    qsort(self->by_name, manifest->variable_count, sizeof(*self->by_name), compare_variables);
    *out = self;
    self = NULL;
    return 0;
}

void
cadre_checkpoint_reader_destroy(cadre_checkpoint_reader_t **self_p)
{
    cadre_checkpoint_reader_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t k = 0; k < self->manifest.shard_count; k++) {
        cadre_shard_reader_destroy(&self->shards[k]);
    }

    cadre_disk_close(&self->directory_fd);
    cadre_manifest_fini(&self->manifest);
    free(self->by_name);
    free(self->shards);
    free(self->path);
    free(self);
}

const cadre_manifest_t *
cadre_checkpoint_reader_manifest(const cadre_checkpoint_reader_t *self)
{
    return &self->manifest;
}

int
cadre_checkpoint_reader_shard(cadre_checkpoint_reader_t *self, size_t k,
                              const cadre_give_up_t *give_up, cadre_shard_reader_t **out)
{
    cadre_assert(k < self->manifest.shard_count);
    if (!self->shards[k]) {
        const cadre_manifest_shard_t *shard = &self->manifest.shards[k];
        cadre_auto(cadre_free) char *path = cadre_asprintf("%s/%s", self->path, shard->file);
        const cadre_shard_reader_file_t file = {.directory_fd = self->directory_fd,
                                                .name = shard->file,
                                                .path = path,
                                                .size_bytes = shard->size_bytes,
                                                .hash = shard->hash};
        int status = cadre_shard_reader_open(&file, give_up, &self->shards[k]);
        if (status != 0) {
            return status;
        }
    }

    *out = self->shards[k];
    return 0;
}

const cadre_manifest_variable_t *
cadre_checkpoint_reader_variable(const cadre_checkpoint_reader_t *self, const char *name)
{
    cadre_manifest_variable_t key = {.name = (char *)name};
    const cadre_manifest_variable_t *key_p = &key;
    const cadre_manifest_variable_t **found =
        bsearch(&key_p, self->by_name, self->manifest.variable_count, sizeof(*self->by_name),
                compare_variables);
    return found ? *found : NULL;
}

size_t
cadre_checkpoint_partition_at(const cadre_manifest_variable_t *variable, int64_t element)
{
    size_t low = 0;
    size_t high = variable->partition_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const cadre_manifest_partition_t *partition = &variable->partitions[middle];
        if (partition->first_element + partition->count <= element) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }

    return low;
}

/* The variable and the range's limits: what a caller may get wrong. */
static int
check_range(const cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *range,
            const cadre_manifest_variable_t **variable)
{
    *variable = cadre_checkpoint_reader_variable(self, range->variable);
    if (!*variable) {
        return cadre_fail(CADRE_ENOTFOUND, "%s holds no variable %s", self->path, range->variable);
    }

    int64_t total = 0;
    int status =
        cadre_shape_size((*variable)->dtype, (*variable)->shape, (*variable)->rank, &total, NULL);
    cadre_assert(status == 0);
    if (range->first_element < 0 || range->count < 0 || range->first_element > total ||
        range->count > total - range->first_element) {
        return cadre_fail(CADRE_EINVALID, "%s has %lld elements, not %lld from %lld on",
                          range->variable, (long long)total, (long long)range->count,
                          (long long)range->first_element);
    }

    if (!cadre_checkpoint_name_valid(range->kind, CADRE_CHECKPOINT_KIND_SIZE_MAX)) {
        return cadre_fail(CADRE_EINVALID, "%s: the kind has a bad name", range->variable);
    }

    return 0;
}

/* The part of `range` that lies in `partition`. */
static cadre_checkpoint_range_t
part_of(const cadre_checkpoint_range_t *range, const cadre_manifest_partition_t *partition)
{
    cadre_checkpoint_range_t part = *range;
    int64_t end = range->first_element + range->count;
    int64_t partition_end = partition->first_element + partition->count;
    if (part.first_element < partition->first_element) {
        part.first_element = partition->first_element;
    }
    part.count = cadre_min_i64(end, partition_end) - part.first_element;
    return part;
}

/* Reads the part of the range that lies in one partition. */
static int
read_part(cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *part,
          uint32_t shard_index, void *out, uint64_t *version)
{
    cadre_shard_reader_t *shard = NULL;
    int status = cadre_checkpoint_reader_shard(self, shard_index, NULL, &shard);
    uint64_t part_version = 0;

    if (status == CADRE_ENOTFOUND) { /* the file; below, the same status speaks of the kind */
        return CADRE_ECORRUPT;
    }
    if (status < 0) {
        return status;
    }

    status = cadre_shard_reader_read(shard, part, out, &part_version);
    if (status < 0) {
        return status;
    }
    if (part_version > *version) {
        *version = part_version;
    }

    return 0;
}

int
cadre_checkpoint_reader_read(cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *range,
                             void *out, uint64_t *version)
{
    const cadre_manifest_variable_t *variable;
    int status = check_range(self, range, &variable);
    if (status != 0) {
        return status;
    }

    uint64_t newest = 0;
    int64_t next = range->first_element;
    int64_t missing = 0; /* elements in partitions whose shard has nothing of this kind */
    uint8_t *to = out;

    for (size_t i = cadre_checkpoint_partition_at(variable, next);
         next < range->first_element + range->count; i++) {
        cadre_checkpoint_range_t part = part_of(range, &variable->partitions[i]);
        status = part.count == 0
                     ? 0
                     : read_part(self, &part, variable->partitions[i].shard, to, &newest);
        if (status != 0 && status != CADRE_ENOTFOUND) {
            return status;
        }
        missing += status == CADRE_ENOTFOUND ? part.count : 0;
        next += part.count;
        to += (size_t)part.count * cadre_dtype_size(range->dtype);
    }

    if (missing > 0) {
        bool never_there =
            missing == range->count && strcmp(range->kind, CADRE_CHECKPOINT_KIND_VALUE) != 0;
        return cadre_fail(never_there ? CADRE_ENOTFOUND : CADRE_ECORRUPT,
                          "%s: %s %s: %lld of %lld elements are missing", self->path,
                          range->variable, range->kind, (long long)missing,
                          (long long)range->count);
    }

    if (version) {
        *version = newest;
    }

    return 0;
}

int
cadre_checkpoint_reader_prepare(cadre_checkpoint_reader_t *self,
                                const cadre_checkpoint_range_t *range,
                                const cadre_give_up_t *give_up)
{
    const cadre_manifest_variable_t *variable;
    int status = check_range(self, range, &variable);
    int64_t end = range->first_element + range->count;
    size_t i = status == 0 ? cadre_checkpoint_partition_at(variable, range->first_element) : 0;
    for (; status == 0 && i < variable->partition_count; i++) {
        const cadre_manifest_partition_t *partition = &variable->partitions[i];
        cadre_shard_reader_t *shard = NULL;
        if (partition->first_element >= end) {
            break;
        }
        status = cadre_checkpoint_reader_shard(self, partition->shard, give_up, &shard);
    }

    return status == CADRE_ENOTFOUND ? CADRE_ECORRUPT : status; /* a file is missing */
}

int
cadre_checkpoint_reader_verify_files(cadre_checkpoint_reader_t *self)
{
    for (size_t k = 0; k < self->manifest.shard_count; k++) {
        cadre_shard_reader_t *shard = NULL;
        int status = cadre_checkpoint_reader_shard(self, k, NULL, &shard);
        if (status != 0) {
            return status;
        }
    }
    return 0;
}
