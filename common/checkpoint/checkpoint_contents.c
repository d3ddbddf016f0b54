/*
 * Reading everything a checkpoint holds, and counting that nothing is missing.
 *
 * In one shard a kind's chunks come in order and may not overlap; each lies inside a partition that
 * the manifest gives to that shard; the manifest's partitions do not overlap. So a kind covers its
 * variable exactly when the counts add up.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/checkpoint_reader_internal.h"
#include "common/tensor/tensor.h"

/* The elements of one kind (values, or a slot) of a variable, while the shards are read. */
typedef struct {
    cadre_checkpoint_content_t content;
    size_t before; /* index of the variable's kind found before this one, NONE for the first */
} kind_t;

static const size_t NONE = SIZE_MAX;

typedef struct {
    const cadre_checkpoint_reader_t *reader;
    uint32_t shard;
    size_t *newest; /* per variable: index of the kind found last, NONE at the start */
    kind_t *kinds;
    size_t kind_count;
    size_t kind_capacity;
    size_t last; /* the kind of the chunk before, NONE at the start of a shard */
    int64_t last_end;
    size_t last_partition;
    uint64_t last_version;
} walk_t;

static size_t
new_kind(walk_t *self, const cadre_manifest_variable_t *variable, const cadre_shard_chunk_t *chunk)
{
    self->kinds =
        cadre_grow(self->kinds, self->kind_count, &self->kind_capacity, sizeof(*self->kinds));

    size_t *newest = &self->newest[variable - self->reader->manifest.variables];
    kind_t *kind = &self->kinds[self->kind_count];
    *kind = (kind_t){.before = *newest};
    kind->content.variable = variable->name;
    memcpy(kind->content.kind, chunk->kind, strlen(chunk->kind) + 1); /* its size was checked */
    kind->content.dtype = chunk->dtype;
    kind->content.rank = chunk->rank;
    memcpy(kind->content.shape, chunk->shape, sizeof(kind->content.shape));
    *newest = self->kind_count++;
    return *newest;
}

/* The index of the chunk's kind, which is new when this is its first chunk. */
static size_t
find_kind(walk_t *self, const cadre_manifest_variable_t *variable, const cadre_shard_chunk_t *chunk)
{
    size_t index = self->newest[variable - self->reader->manifest.variables];
    while (index != NONE && strcmp(self->kinds[index].content.kind, chunk->kind) != 0) {
        index = self->kinds[index].before;
    }
    return index == NONE ? new_kind(self, variable, chunk) : index;
}

static int
fail_chunk(const walk_t *self, const cadre_shard_chunk_t *chunk, const char *why)
{
    return cadre_fail(CADRE_ECORRUPT, "%s/%s: %s %s from element %lld %s", self->reader->path,
                      self->reader->manifest.shards[self->shard].file, chunk->variable, chunk->kind,
                      (long long)chunk->first_element, why);
}

/* Shape and dtype against the manifest and against the kind's other chunks. */
static int
check_type(const walk_t *self, const cadre_manifest_variable_t *variable,
           const cadre_checkpoint_content_t *content, const cadre_shard_chunk_t *chunk)
{
    if (!cadre_shape_equal(chunk->shape, chunk->rank, variable->shape, variable->rank)) {
        return fail_chunk(self, chunk, "has another shape than the manifest says");
    }
    bool is_value = strcmp(chunk->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0;
    if (chunk->dtype != content->dtype || (is_value && chunk->dtype != variable->dtype)) {
        return fail_chunk(self, chunk, "has another dtype than the rest");
    }
    return 0;
}

/* Place and version against the partition and the chunk before. */
static int
check_place(walk_t *self, const cadre_manifest_variable_t *variable, size_t kind,
            const cadre_shard_chunk_t *chunk)
{
    int64_t count = cadre_shard_chunk_count(chunk);
    int64_t end = chunk->first_element + count;
    size_t index = cadre_checkpoint_partition_at(variable, chunk->first_element);
    if (count > 0) {
        const cadre_manifest_partition_t *partition =
            index < variable->partition_count ? &variable->partitions[index] : NULL;
        if (!partition || partition->shard != self->shard ||
            end > partition->first_element + partition->count) {
            return fail_chunk(self, chunk, "is in no partition of this shard");
        }
    }

    /* Chunks come in the order of their elements: each is compared with the one before alone. */
    if (kind == self->last && chunk->first_element < self->last_end) {
        return fail_chunk(self, chunk, "overlaps the chunk before");
    }

    if (kind == self->last && index == self->last_partition &&
        chunk->version != self->last_version) {
        return fail_chunk(self, chunk, "has another version than its partition");
    }

    self->last = kind;
    self->last_end = end;
    self->last_partition = index;
    self->last_version = chunk->version;
    return 0;
}

static int
visit(void *context, const cadre_shard_chunk_t *chunk)
{
    walk_t *self = context;
    const cadre_manifest_variable_t *variable =
        cadre_checkpoint_reader_variable(self->reader, chunk->variable);
    if (!variable) {
        return 0; /* the variable was being created when the snapshots were taken: no restore will
                     read it */
    }

    size_t kind = find_kind(self, variable, chunk);
    cadre_checkpoint_content_t *content = &self->kinds[kind].content;
    int status = check_type(self, variable, content, chunk);
    if (status < 0) {
        return status;
    }

    status = check_place(self, variable, kind, chunk);
    if (status < 0) {
        return status;
    }

    content->count += cadre_shard_chunk_count(chunk);
    content->version = cadre_max_u64(content->version, chunk->version);
    return 0;
}

static int
check_state(const walk_t *self, cadre_shard_reader_t *shard)
{
    const cadre_manifest_shard_t *said = &self->reader->manifest.shards[self->shard];
    cadre_shard_state_t state;
    int status = cadre_shard_reader_state(shard, &state);
    if (status != 0) {
        return status;
    }

    bool same =
        state.window_base == said->state.window_base && state.generation == said->state.generation;
#define SAME_COUNTER(name) same = same && state.name == said->state.name;
    CADRE_SHARD_COUNTER_LIST(SAME_COUNTER)
#undef SAME_COUNTER
    return same ? 0
                : cadre_fail(CADRE_ECORRUPT,
                             "%s/%s: the shard's state is not what the manifest says",
                             self->reader->path, said->file);
}

/* Reads all shards of a checkpoint, and checks what each holds. */
static int
read_shards(walk_t *self, cadre_checkpoint_reader_t *reader)
{
    for (size_t k = 0; k < reader->manifest.shard_count; k++) {
        cadre_shard_reader_t *shard = NULL;
        self->shard = (uint32_t)k;
        self->last = NONE;
        int status = cadre_checkpoint_reader_shard(reader, k, NULL, &shard);
        if (status != 0) {
            return status;
        }

        status = check_state(self, shard);
        if (status != 0) {
            return status;
        }

        status = cadre_shard_reader_each(shard, visit, self);
        if (status != 0) {
            return status;
        }
    }

    return 0;
}

/* Every kind complete, and values among them unless there is nothing to hold. */
static int
check_complete(const walk_t *self, const cadre_manifest_variable_t *variable)
{
    const cadre_manifest_partition_t *last = variable->partitions + variable->partition_count;
    int64_t total = 0;
    if (variable->partition_count > 0) {
        last--;
        total = last->first_element + last->count;
    }

    bool has_values = total == 0;
    size_t index = self->newest[variable - self->reader->manifest.variables];
    for (; index != NONE; index = self->kinds[index].before) {
        cadre_assert(index < self->kind_count);
        const cadre_checkpoint_content_t *content = &self->kinds[index].content;
        if (content->count != total) {
            return cadre_fail(CADRE_ECORRUPT, "%s: %s %s: %lld of %lld elements are missing",
                              self->reader->path, variable->name, content->kind,
                              (long long)(total - content->count), (long long)total);
        }
        has_values = has_values || strcmp(content->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0;
    }

    return has_values ? 0
                      : cadre_fail(CADRE_ECORRUPT, "%s: the values of %s are missing",
                                   self->reader->path, variable->name);
}

/* The kinds in the manifest's order of variables; within one, in the order they were found, which
 * is that of the keys. */
static cadre_checkpoint_content_t *
in_order(const walk_t *self)
{
    cadre_checkpoint_content_t *contents = cadre_calloc(self->kind_count, sizeof(*contents));
    size_t end = self->kind_count;
    for (size_t i = self->reader->manifest.variable_count; i-- > 0;) {
        for (size_t index = self->newest[i]; index != NONE; index = self->kinds[index].before) {
            contents[--end] = self->kinds[index].content;
        }
    }
    return contents;
}

static void
walk_fini(walk_t *self)
{
    free(self->kinds);
    free(self->newest);
}

int
cadre_checkpoint_reader_contents(cadre_checkpoint_reader_t *self,
                                 cadre_checkpoint_content_t **contents, size_t *count)
{
    const cadre_manifest_t *manifest = &self->manifest;
    cadre_auto(walk_fini) walk_t walk = {.reader = self};

    walk.newest = cadre_calloc(manifest->variable_count, sizeof(*walk.newest));
    for (size_t i = 0; i < manifest->variable_count; i++) {
        walk.newest[i] = NONE;
    }

    int status = read_shards(&walk, self);
    if (status != 0) {
        return status;
    }

    for (size_t i = 0; i < manifest->variable_count; i++) {
        status = check_complete(&walk, &manifest->variables[i]);
        if (status < 0) {
            return status;
        }
    }

    if (contents) {
        *contents = in_order(&walk);
        *count = walk.kind_count;
    }

    return 0;
}
