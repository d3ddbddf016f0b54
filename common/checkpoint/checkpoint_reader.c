#include "common/checkpoint/checkpoint_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/checkpoint/disk.h"
#include "common/spec/table_spec.h"
#include "common/tensor/tensor.h"

struct cadre_checkpoint_reader {
    int directory_fd;
    char *path; /* for messages */
    cadre_manifest_t manifest;
    /* [shard_count]; an entry is NULL until its shard is first needed. */
    cadre_shard_reader_t **shards;
    const cadre_manifest_variable_t **by_name; /* the manifest's variables, sorted */
    cadre_checkpoint_reader_t *base; /* the checkpoint that this one leaves pages to; NULL until it
                                        is needed */
    unsigned depth;                  /* checkpoints of the chain before this one */
};

/* Orders pointers to variables by name, for qsort and bsearch. */
static int
compare_variables(const void *left, const void *right)
{
    const cadre_manifest_variable_t *const *a = left;
    const cadre_manifest_variable_t *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Opens a checkpoint by the path of its directory, which must not be a symbolic link. */
int
cadre_checkpoint_reader_open(const char *path, cadre_checkpoint_reader_t **out)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return cadre_disk_fail(errno, "cannot open %s", path);
    }
    return cadre_checkpoint_reader_open_in(&fd, path, out);
}

/* Opens a checkpoint in an open directory, whose descriptor it takes, and reads its manifest; shard
 * files are opened when they are needed. */
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

/* Closes all files of a reader, and frees it. */
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

    cadre_checkpoint_reader_destroy(&self->base);
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

/* Gives the reader of shard k; verifies and opens its file if that was not done before. */
static int
open_shard(cadre_checkpoint_reader_t *self, size_t k, const cadre_give_up_t *give_up,
           cadre_shard_reader_t **out)
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
        if (status != 0) { /* a file that the manifest names and is missing is damage */
            return status == CADRE_ENOTFOUND ? CADRE_ECORRUPT : status;
        }
    }

    *out = self->shards[k];
    return 0;
}

/* Returns the variable called `name`, or NULL. */
static const cadre_manifest_variable_t *
find_variable(const cadre_checkpoint_reader_t *self, const char *name)
{
    cadre_manifest_variable_t key = {.name = (char *)name};
    const cadre_manifest_variable_t *key_p = &key;
    const cadre_manifest_variable_t **found =
        bsearch(&key_p, self->by_name, self->manifest.variable_count, sizeof(*self->by_name),
                compare_variables);
    return found ? *found : NULL;
}

/* Finds by bisection the partition that holds `element`, and returns its index; partition_count
 * when none does. */
static size_t
partition_at(const cadre_manifest_variable_t *variable, int64_t element)
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

/* Checks the caller's arguments, and finds the variable: it must exist, and the range lie inside
 * it. */
static int
check_range(const cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *range,
            const cadre_manifest_variable_t **variable)
{
    *variable = find_variable(self, range->variable);
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

/* Returns the part of `range` that lies in `partition`. */
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

/* Reads a part of a range that lies in one partition, from the file of the partition's shard. */
static int
read_part(cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *part,
          uint32_t shard_index, void *out, cadre_change_counts_t *counts)
{
    cadre_shard_reader_t *shard = NULL;
    int status = open_shard(self, shard_index, NULL, &shard);
    cadre_change_counts_t of_part = {0};

    if (status < 0) {
        return status;
    }

    status = cadre_shard_reader_read(shard, part, out, &of_part);
    if (status < 0) {
        return status;
    }

    counts->version = cadre_max_u64(counts->version, of_part.version);
    counts->steps = cadre_max_u64(counts->steps, of_part.steps);
    return 0;
}

/* Copies a range of a variable's values or slot to `out`, partition by partition. CADRE_ENOTFOUND
 * only for a slot of which no shard has anything (the optimizer was another one); what is there
 * only in part is damaged. */
int
cadre_checkpoint_reader_read(cadre_checkpoint_reader_t *self, const cadre_checkpoint_range_t *range,
                             void *out, cadre_change_counts_t *counts)
{
    const cadre_manifest_variable_t *variable;
    int status = check_range(self, range, &variable);
    if (status != 0) {
        return status;
    }

    cadre_change_counts_t newest = {0};
    int64_t next = range->first_element;
    int64_t missing = 0; /* elements in partitions whose shard has nothing of this kind */
    uint8_t *to = out;

    for (size_t i = partition_at(variable, next); next < range->first_element + range->count; i++) {
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
        /* A slot of which nothing is there: the optimizer was another one. */
        bool never_there =
            missing == range->count && strcmp(range->kind, CADRE_CHECKPOINT_KIND_VALUE) != 0;
        return cadre_fail(never_there ? CADRE_ENOTFOUND : CADRE_ECORRUPT,
                          "%s: %s %s: %lld of %lld elements are missing", self->path,
                          range->variable, range->kind, (long long)missing,
                          (long long)range->count);
    }

    if (counts) {
        *counts = newest;
    }

    return 0;
}

/* Opens, and so verifies, the files of all shards that hold a part of the range. */
int
cadre_checkpoint_reader_prepare(cadre_checkpoint_reader_t *self,
                                const cadre_checkpoint_range_t *range,
                                const cadre_give_up_t *give_up)
{
    const cadre_manifest_variable_t *variable;
    int status = check_range(self, range, &variable);
    int64_t end = range->first_element + range->count;
    size_t i = status == 0 ? partition_at(variable, range->first_element) : 0;
    for (; status == 0 && i < variable->partition_count; i++) {
        const cadre_manifest_partition_t *partition = &variable->partitions[i];
        cadre_shard_reader_t *shard = NULL;
        if (partition->first_element >= end) {
            break;
        }
        status = open_shard(self, partition->shard, give_up, &shard);
    }

    return status;
}

/* --- tables --- */

/* Opens the checkpoint that this one leaves pages of tables to, which is beside it. */
static int
open_base(cadre_checkpoint_reader_t *self)
{
    if (self->base) {
        return 0;
    }
    if (self->depth + 1 >= CADRE_CHECKPOINT_CHAIN_MAX) {
        return cadre_fail(CADRE_ECORRUPT, "%s: a chain of more than %d checkpoints", self->path,
                          CADRE_CHECKPOINT_CHAIN_MAX);
    }

    char name[CADRE_CHECKPOINT_NAME_SIZE];
    cadre_auto(cadre_free) char *beside =
        cadre_asprintf("../%s", cadre_checkpoint_name(self->manifest.since, name));
    const char *end = strrchr(self->path, '/');
    const int parent = end ? (int)(end - self->path) : 0;
    cadre_auto(cadre_free) char *path =
        cadre_asprintf("%.*s%s%s", parent, self->path, end ? "/" : "", name);
    int fd = openat(self->directory_fd, beside, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int status = fd < 0 ? cadre_disk_fail(errno, "cannot open %s", path)
                        : cadre_checkpoint_reader_open_in(&fd, path, &self->base);
    if (status == CADRE_ENOTFOUND) {
        return CADRE_ECORRUPT; /* it is missing, which is damage */
    }
    if (status < 0) {
        return status;
    }

    self->base->depth = self->depth + 1;
    if (self->base->manifest.id != self->manifest.since) {
        return cadre_fail(CADRE_ECORRUPT, "%s holds checkpoint %llu", path,
                          (unsigned long long)self->base->manifest.id);
    }
    return 0;
}

/* Opens the file of a shard, and reads how it describes a table. */
static int
describe(cadre_checkpoint_reader_t *self, const char *variable, uint32_t shard,
         const cadre_give_up_t *give_up, cadre_table_record_t *record)
{
    cadre_shard_reader_t *file = NULL;
    int status = open_shard(self, shard, give_up, &file);
    if (status == 0) {
        status = cadre_shard_reader_table(file, variable, record);
    }
    if (status == CADRE_ENOTFOUND) {
        return CADRE_ECORRUPT; /* a table that the manifest names is missing */
    }
    if (status < 0) {
        return status;
    }
    if (record->shard != shard || record->shards != self->manifest.shard_count ||
        record->checkpoint != self->manifest.id ||
        (record->base != 0 && record->base != self->manifest.since)) {
        return cadre_fail(CADRE_ECORRUPT, "%s: %s is described otherwise than by the manifest",
                          self->path, variable);
    }
    return 0;
}

int
cadre_checkpoint_reader_table(cadre_checkpoint_reader_t *self, const char *variable, uint32_t shard,
                              const cadre_give_up_t *give_up, cadre_table_record_t *record)
{
    const cadre_manifest_variable_t *found = find_variable(self, variable);
    if (!found || !found->table || shard >= found->partition_count) {
        return cadre_fail(CADRE_ENOTFOUND, "%s holds no part %u of a table %s", self->path, shard,
                          variable);
    }
    return describe(self, variable, shard, give_up, record);
}

/* A walk over the pages of a table's part, from the newest file of the chain on. */
typedef struct {
    const cadre_checkpoint_reader_t *reader; /* of the file at hand */
    const char *variable;
    cadre_table_record_t record; /* of the newest file */
    const cadre_give_up_t *give_up;
    int (*visit)(void *context, const cadre_table_page_t *page);
    void *context;
    bool *seen;     /* positions that were visited */
    uint64_t count; /* of those */
} page_walk_t;

static void
page_walk_fini(page_walk_t *self)
{
    free(self->seen);
}

/* Visits a page unless a newer file has had its position. */
static int
visit_page(void *context, const cadre_table_page_t *page)
{
    page_walk_t *self = context;
    if (cadre_give_up(self->give_up)) {
        return cadre_fail(CADRE_ECANCELLED, "the reading was given up");
    }
    if (page->position >= cadre_table_record_pages(&self->record) ||
        page->size_bytes != self->record.page_size) {
        return cadre_fail(CADRE_ECORRUPT, "%s: %s has a page %u of %zu bytes", self->reader->path,
                          self->variable, page->position, page->size_bytes);
    }
    if (self->seen[page->position]) {
        return 0;
    }
    self->seen[page->position] = true;
    self->count++;
    return self->visit(self->context, page);
}

/* Moves on to the base of the file at hand, described as `record`, and gives how that describes the
 * table: it must be the one that the newer file was written beside. */
static int
go_to_base(cadre_checkpoint_reader_t **reader, page_walk_t *walk, uint32_t shard,
           cadre_table_record_t *record)
{
    const cadre_table_record_t newer = *record;
    int status = open_base(*reader);
    if (status < 0) {
        return status;
    }

    *reader = (*reader)->base;
    walk->reader = *reader;
    status = describe(*reader, walk->variable, shard, walk->give_up, record);
    if (status < 0) {
        return status;
    }
    if (record->stamp != newer.base_stamp || record->page_size != newer.page_size ||
        record->page_rows != newer.page_rows || record->end > newer.end) {
        return cadre_fail(CADRE_ECORRUPT,
                          "%s: %s is not what a later checkpoint was written beside",
                          (*reader)->path, walk->variable);
    }
    return 0;
}

int
cadre_checkpoint_reader_pages(cadre_checkpoint_reader_t *self, const char *variable, uint32_t shard,
                              const cadre_give_up_t *give_up,
                              int (*visit)(void *context, const cadre_table_page_t *page),
                              void *context)
{
    cadre_auto(page_walk_fini) page_walk_t walk = {.reader = self,
                                                   .variable = variable,
                                                   .give_up = give_up,
                                                   .visit = visit,
                                                   .context = context};
    int status = cadre_checkpoint_reader_table(self, variable, shard, give_up, &walk.record);
    if (status < 0) {
        return status;
    }

    const uint64_t pages = cadre_table_record_pages(&walk.record);
    cadre_table_record_t record = walk.record;
    cadre_checkpoint_reader_t *reader = self;
    walk.seen = cadre_calloc(pages, sizeof(*walk.seen));
    for (;;) {
        status = cadre_shard_reader_each_page(reader->shards[shard], variable,
                                              CADRE_CHECKPOINT_KIND_PAGE, visit_page, &walk);
        if (status != 0) {
            return status;
        }
        if (record.base == 0) {
            break;
        }
        status = go_to_base(&reader, &walk, shard, &record);
        if (status != 0) {
            return status;
        }
    }
    if (walk.count != pages) {
        return cadre_fail(CADRE_ECORRUPT, "%s: %s: %llu of %llu pages are missing", self->path,
                          variable, (unsigned long long)(pages - walk.count),
                          (unsigned long long)pages);
    }
    return 0;
}

/* A walk over the blocks of sightings. */
typedef struct {
    const cadre_give_up_t *give_up;
    int (*visit)(void *context, const cadre_table_page_t *block);
    void *context;
} block_walk_t;

static int
visit_block(void *context, const cadre_table_page_t *block)
{
    const block_walk_t *self = context;
    if (cadre_give_up(self->give_up)) {
        return cadre_fail(CADRE_ECANCELLED, "the reading was given up");
    }
    return self->visit(self->context, block);
}

int
cadre_checkpoint_reader_sightings(cadre_checkpoint_reader_t *self, const char *variable,
                                  uint32_t shard, const cadre_give_up_t *give_up,
                                  int (*visit)(void *context, const cadre_table_page_t *block),
                                  void *context)
{
    block_walk_t walk = {.give_up = give_up, .visit = visit, .context = context};
    cadre_table_record_t record;
    int status = cadre_checkpoint_reader_table(self, variable, shard, give_up, &record);
    if (status < 0) {
        return status;
    }
    return cadre_shard_reader_each_page(self->shards[shard], variable,
                                        CADRE_CHECKPOINT_KIND_SIGHTINGS, visit_block, &walk);
}

/* The rows of a table's part that its pages have. */
typedef struct {
    const cadre_checkpoint_reader_t *reader;
    const char *variable;
    cadre_table_record_t record;
    uint64_t rows;
} row_count_t;

/* Counts the rows of a page, and checks that they belong to their shard. */
static int
count_rows(void *context, const cadre_table_page_t *page)
{
    row_count_t *self = context;
    const uint64_t first = page->position * self->record.page_rows;
    const uint64_t count = cadre_min_u64(self->record.page_rows, self->record.end - first);
    for (uint32_t place = 0; place < count; place++) {
        uint64_t key = 0;
        const void *values = NULL;
        if (!cadre_table_page_row(&self->record, page->bytes, place, &key, &values)) {
            continue;
        }
        self->rows++;
        if (cadre_table_shard(key, (uint32_t)self->record.shards) != self->record.shard) {
            return cadre_fail(CADRE_ECORRUPT, "%s: %s: key %llu is of another shard",
                              self->reader->path, self->variable, (unsigned long long)key);
        }
    }
    return 0;
}

/* Checks all pages of a table, in the files of the chain. */
static int
check_table(cadre_checkpoint_reader_t *self, const cadre_manifest_variable_t *variable)
{
    for (uint32_t shard = 0; shard < variable->partition_count; shard++) {
        row_count_t count = {.reader = self, .variable = variable->name};
        int status =
            cadre_checkpoint_reader_table(self, variable->name, shard, NULL, &count.record);
        if (status == 0) {
            status = cadre_checkpoint_reader_pages(self, variable->name, shard, NULL, count_rows,
                                                   &count);
        }
        if (status < 0) {
            return status;
        }
        if (count.rows != count.record.rows) {
            return cadre_fail(CADRE_ECORRUPT, "%s: %s has %llu rows on shard %u instead of %llu",
                              self->path, variable->name, (unsigned long long)count.rows, shard,
                              (unsigned long long)count.record.rows);
        }
    }
    return 0;
}

/* Opens every shard file, which checks its size, hash and pages. */
int
cadre_checkpoint_reader_verify_files(cadre_checkpoint_reader_t *self)
{
    for (size_t k = 0; k < self->manifest.shard_count; k++) {
        cadre_shard_reader_t *shard = NULL;
        int status = open_shard(self, k, NULL, &shard);
        if (status != 0) {
            return status;
        }
    }
    if (self->manifest.since == 0) {
        return 0;
    }
    int status = open_base(self);
    return status == 0 ? cadre_checkpoint_reader_verify_files(self->base) : status;
}

/* ---- reading everything, and counting that nothing is missing ----
 *
 * In one shard a kind's chunks come in order and may not overlap; each lies inside a partition that
 * the manifest gives to that shard; the manifest's partitions do not overlap. So a kind covers its
 * variable exactly when the counts add up.
 */

/* The elements of one kind (values, or a slot) of a variable, summed up while the shards are
 * read. */
typedef struct {
    cadre_checkpoint_content_t content;
    size_t before; /* index of the variable's kind found before this one, NONE for the first */
} kind_t;

static const size_t NONE = SIZE_MAX;

/* What the chunks of one partition say of its changes. */
typedef struct {
    bool has_values;
    cadre_change_counts_t of_values;
    bool has_slots;
    uint64_t slot_steps;
} changes_t;

typedef struct {
    const cadre_checkpoint_reader_t *reader;
    uint32_t shard;
    /* Of the variable whose chunks are read, on this shard: of each of its partitions. */
    const cadre_manifest_variable_t *changed;
    changes_t *changes;
    size_t *newest; /* for each variable the index of its kind found last; NONE at the start */
    kind_t *kinds;
    size_t kind_count;
    size_t kind_capacity;
    size_t last;      /* index of the kind of the previous chunk; NONE at the start of a shard */
    int64_t last_end; /* end of the previous chunk's elements */
    size_t last_partition; /* partition and version of the previous chunk */
    uint64_t last_version;
} walk_t;

/* Adds a kind of a variable (its values, or a slot) with the kind's first chunk; returns its index.
 * The kinds of a variable are a list, of which self->newest has the last one found. */
static size_t
new_kind(walk_t *self, const cadre_manifest_variable_t *variable, const cadre_shard_chunk_t *chunk)
{
    self->kinds =
        cadre_grow(self->kinds, self->kind_count, &self->kind_capacity, sizeof(*self->kinds));

    size_t *newest = &self->newest[variable - self->reader->manifest.variables];
    kind_t *kind = &self->kinds[self->kind_count];
    *kind = (kind_t){.before = *newest};
    kind->content.variable = variable->name;
    /* Fits: its size was checked. */
    memcpy(kind->content.kind, chunk->kind, strlen(chunk->kind) + 1);
    kind->content.dtype = chunk->dtype;
    kind->content.rank = chunk->rank;
    memcpy(kind->content.shape, chunk->shape, sizeof(kind->content.shape));
    *newest = self->kind_count++;
    return *newest;
}

/* Returns the index of the chunk's kind, which is added with its first chunk. */
static size_t
find_kind(walk_t *self, const cadre_manifest_variable_t *variable, const cadre_shard_chunk_t *chunk)
{
    size_t index = self->newest[variable - self->reader->manifest.variables];
    while (index != NONE && strcmp(self->kinds[index].content.kind, chunk->kind) != 0) {
        index = self->kinds[index].before;
    }
    return index == NONE ? new_kind(self, variable, chunk) : index;
}

/* Fails with a text that names the file and the chunk, and says what is wrong with it. */
static int
fail_chunk(const walk_t *self, const cadre_shard_chunk_t *chunk, const char *why)
{
    return cadre_fail(CADRE_ECORRUPT, "%s/%s: %s %s from element %lld %s", self->reader->path,
                      self->reader->manifest.shards[self->shard].file, chunk->variable, chunk->kind,
                      (long long)chunk->first_element, why);
}

/* Compares a chunk's shape and dtype with the manifest and with the kind's other chunks. */
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

/* Compares a chunk's elements and version with its partition and with the previous chunk. */
static int
check_place(walk_t *self, const cadre_manifest_variable_t *variable, size_t kind,
            const cadre_shard_chunk_t *chunk)
{
    int64_t count = cadre_shard_chunk_count(chunk);
    int64_t end = chunk->first_element + count;
    size_t index = partition_at(variable, chunk->first_element);
    if (count > 0) {
        const cadre_manifest_partition_t *partition =
            index < variable->partition_count ? &variable->partitions[index] : NULL;
        if (!partition || partition->shard != self->shard ||
            end > partition->first_element + partition->count) {
            return fail_chunk(self, chunk, "is in no partition of this shard");
        }
    }

    /* Chunks come in the order of their elements, so comparing with the previous one is enough. */
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

/* Compares the steps of a chunk with those that other kinds of its partition have: values and slots
 * of the optimizer are of one step. */
static int
check_steps(walk_t *self, const cadre_manifest_variable_t *variable,
            const cadre_shard_chunk_t *chunk)
{
    char why[160];
    if (cadre_shard_chunk_count(chunk) == 0) {
        return 0;
    }
    if (self->changed != variable) {
        free(self->changes);
        self->changes = cadre_calloc(variable->partition_count, sizeof(*self->changes));
        self->changed = variable;
    }

    changes_t *changes = &self->changes[self->last_partition];
    if (strcmp(chunk->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0) {
        changes->has_values = true;
        cadre_shard_chunk_count_changes(chunk, &changes->of_values);
    } else if (changes->has_slots && changes->slot_steps != chunk->steps) {
        snprintf(why, sizeof(why),
                 "is of step %llu, and another slot of the partition of step %llu",
                 (unsigned long long)chunk->steps, (unsigned long long)changes->slot_steps);
        return fail_chunk(self, chunk, why);
    } else {
        changes->has_slots = true;
        changes->slot_steps = chunk->steps;
    }

    if (changes->has_values && changes->has_slots &&
        !cadre_change_counts_fit(&changes->of_values, changes->slot_steps)) {
        snprintf(why, sizeof(why),
                 "is in a partition with values of step %llu and optimizer slots of step %llu",
                 (unsigned long long)changes->of_values.steps,
                 (unsigned long long)changes->slot_steps);
        return fail_chunk(self, chunk, why);
    }
    return 0;
}

/* Checks one chunk of a shard and adds its elements to its kind. */
static int
visit(void *context, const cadre_shard_chunk_t *chunk)
{
    walk_t *self = context;
    const cadre_manifest_variable_t *variable = find_variable(self->reader, chunk->variable);
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
    status = check_steps(self, variable, chunk);
    if (status < 0) {
        return status;
    }

    content->count += cadre_shard_chunk_count(chunk);
    content->version = cadre_max_u64(content->version, chunk->version);
    return 0;
}

/* Compares a shard's state record with the manifest. */
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
        self->changed = NULL;
        int status = open_shard(reader, k, NULL, &shard);
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

/* Checks that every kind of a variable covers all its elements, and that values are among the kinds
 * unless the variable has no elements. */
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

/* Returns the kinds in the manifest's order of variables; the kinds of a variable in the order in
 * which they were found, which is that of the keys. */
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
    free(self->changes);
}

/* Reads and checks every record of a checkpoint, and lists what is there; `contents` may be NULL.
 * */
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
        status = manifest->variables[i].table ? check_table(self, &manifest->variables[i]) : 0;
        if (status < 0) {
            return status;
        }
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
