#include "tests/sim/sim_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/sim/sim_swarm.h"

bool
sim_is_rotten(uint64_t seed)
{
    return sim_swarm_has(seed, "rotten", 5);
}

static void
remove_file(sim_file_t *file)
{
    cadre_shard_snapshot_destroy(&file->snapshot);
    sim_state_destroy(&file->state);
    sim_state_destroy(&file->written);
    for (size_t i = 0; i < file->table_count; i++) {
        sim_pages_fini(&file->tables[i]);
    }
    cadre_free(&file->tables);
    file->table_count = 0;
}

static void
remove_files(sim_checkpoint_t *checkpoint)
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        remove_file(&checkpoint->files[i]);
    }
}

static void
destroy(sim_checkpoint_t *checkpoint)
{
    remove_files(checkpoint);
    if (checkpoint->manifest) {
        cadre_manifest_fini(checkpoint->manifest);
        free(checkpoint->manifest);
    }
    free(checkpoint);
}

void
sim_disk_fini(sim_disk_t *self)
{
    for (size_t i = 0; i < self->count; i++) {
        destroy(self->checkpoints[i]);
    }
    free(self->checkpoints);
}

void
sim_disk_clean(sim_disk_t *self)
{
    /* A draft can only be the last. */
    if (self->count > 0 && !self->checkpoints[self->count - 1]->manifest) {
        destroy(self->checkpoints[--self->count]);
    }
}

/* Whether a checkpoint that is newer, and stays, has left pages to this one. */
static bool
is_base(const sim_disk_t *self, uint64_t id)
{
    bool found = false;
    for (size_t i = 0; i < self->count; i++) {
        const sim_checkpoint_t *other = self->checkpoints[i];
        for (uint32_t shard = 0; !other->removed && shard < SIM_SHARDS_MAX; shard++) {
            const sim_file_t *file = &other->files[shard];
            for (size_t k = 0; k < file->table_count; k++) {
                found = found || file->tables[k].record.base == id;
            }
        }
    }
    return found;
}

void
sim_disk_retain(sim_disk_t *self, uint64_t oldest)
{
    /* The newest first: what is removed needs no base. */
    for (size_t i = self->count > self->keep ? self->count - self->keep : 0; i-- > 0;) {
        if (self->checkpoints[i]->id < oldest && !is_base(self, self->checkpoints[i]->id)) {
            self->checkpoints[i]->removed = true;
            remove_files(self->checkpoints[i]);
        }
    }
}

sim_checkpoint_t *
sim_disk_draft(sim_disk_t *self, uint64_t id)
{
    sim_disk_clean(self);
    sim_checkpoint_t *draft = cadre_calloc(1, sizeof(*draft));
    draft->id = id;
    draft->number = self->made + 1;
    snprintf(draft->path, sizeof(draft->path), "draft-%" PRIu64, ++self->made);
    self->checkpoints =
        cadre_realloc(self->checkpoints, self->count + 1, sizeof(*self->checkpoints));
    self->checkpoints[self->count++] = draft;
    return draft;
}

sim_checkpoint_t *
sim_disk_newest(const sim_disk_t *self, bool sound)
{
    for (size_t i = self->count; i > 0; i--) {
        sim_checkpoint_t *at = self->checkpoints[i - 1];
        if (at->manifest && !at->removed && !(sound && at->damaged)) {
            return at;
        }
    }
    return NULL;
}

sim_checkpoint_t *
sim_disk_find(const sim_disk_t *self, const char *path)
{
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->checkpoints[i]->path, path) == 0) {
            return self->checkpoints[i];
        }
    }
    return NULL;
}

/* Moves the tables of a snapshot into the file. */
static void
take_tables(sim_file_t *file)
{
    cadre_shard_snapshot_t *snapshot = file->snapshot;
    file->tables = cadre_calloc(snapshot->part_count + 1, sizeof(*file->tables));
    for (size_t i = 0; i < snapshot->part_count; i++) {
        if (snapshot->parts[i].table) {
            sim_pages_init(&file->tables[file->table_count++], &snapshot->parts[i]);
        }
    }
}

int
sim_disk_write(sim_disk_t *self, cadre_shard_snapshot_t **snapshot_p, sim_state_t **state_p,
               uint64_t *hash)
{
    cadre_shard_snapshot_t *snapshot = *snapshot_p;
    sim_checkpoint_t *draft = sim_disk_find(self, snapshot->directory);
    *hash = ++self->files;
    if (!draft || draft->manifest) {
        cadre_shard_snapshot_destroy(snapshot_p);
        sim_state_destroy(state_p);
        return cadre_fail(CADRE_EIO, "the disk of the simulation has no such directory");
    }
    sim_file_t *file = &draft->files[snapshot->index];
    remove_file(file);
    *file = (sim_file_t){.snapshot = snapshot, .state = *state_p, .hash = *hash};
    take_tables(file);
    *snapshot_p = NULL;
    *state_p = NULL;
    return 0;
}

/* --- commit --- */

/* The elements of a part of a snapshot. */
static void
range_of(const cadre_shard_snapshot_part_t *part, int64_t *first, int64_t *count)
{
    int64_t size_bytes = (int64_t)part->layout.size_bytes;
    *count = size_bytes / (int64_t)cadre_dtype_size(part->spec.dtype);
    *first = part->spec.rows > 0 ? *count / part->spec.rows * part->spec.first_row : 0;
}

static bool
holds(const sim_file_t *file, const char *name, const cadre_manifest_partition_t *partition)
{
    for (size_t i = 0; i < file->snapshot->part_count; i++) {
        const cadre_shard_snapshot_part_t *part = &file->snapshot->parts[i];
        int64_t first = 0;
        int64_t count = 0;
        range_of(part, &first, &count);
        if (strcmp(part->name, name) == 0 && first == partition->first_element &&
            count == partition->count) {
            return true;
        }
    }
    return false;
}

/* The variables that its files have parts of. */
static uint32_t
held_by(const sim_disk_t *self, const sim_checkpoint_t *checkpoint)
{
    uint32_t holds = 0;
    for (uint32_t i = 0; i < self->check->shard_count; i++) {
        const cadre_shard_snapshot_t *snapshot = checkpoint->files[i].snapshot;
        for (size_t k = 0; k < snapshot->part_count; k++) {
            holds |= 1U << (snapshot->parts[k].spec.variable - 1);
        }
    }
    return holds;
}

/* What the one before holds is there, unless it was dropped; what was dropped before the cut is
 * not. */
static void
check_variables(const sim_disk_t *self, const sim_checkpoint_t *draft)
{
    uint32_t holds = held_by(self, draft);
    const sim_checkpoint_t *before = sim_disk_newest(self, true);
    for (uint32_t i = 0; before && i < SIM_VARIABLES_MAX; i++) {
        bool is_lost = (before->holds & ~holds) >> i & 1;
        if (is_lost && !self->check->variables[i].was_dropped &&
            !self->check->variables[i].given_up) {
            sim_check_fail(self->check,
                           "I5: checkpoint %" PRIu64 " lacks variable %u, which checkpoint %" PRIu64
                           " has",
                           draft->id, i + 1, before->id);
        }
    }
    uint64_t epoch = sim_check_life(self->check)->epoch;
    const sim_cut_of_t *cut = sim_check_find_cut(self->check, epoch, draft->id);
    if (cut && (cut->left_out & holds)) {
        sim_check_fail(self->check,
                       "I5: checkpoint %" PRIu64 " holds variables %x, which were dropped before",
                       draft->id, cut->left_out & holds);
    }
    if (cut && (cut->usable & ~holds)) {
        sim_check_fail(self->check, "I5: checkpoint %" PRIu64 " lacks variables %x", draft->id,
                       cut->usable & ~holds);
    }
}

/* --- tables --- */

/* The part of a table in a file; NULL when it has none. */
static const sim_pages_t *
find_pages(const sim_file_t *file, const char *name)
{
    for (size_t i = 0; i < file->table_count; i++) {
        if (strcmp(file->tables[i].name, name) == 0) {
            return &file->tables[i];
        }
    }
    return NULL;
}

/* The checkpoint with this id that has files; NULL when there is none. */
static sim_checkpoint_t *
find_id(const sim_disk_t *self, uint64_t id)
{
    for (size_t i = self->count; i > 0; i--) {
        sim_checkpoint_t *checkpoint = self->checkpoints[i - 1];
        if (checkpoint->id == id && checkpoint->manifest && !checkpoint->removed) {
            return checkpoint;
        }
    }
    return NULL;
}

/* Visits the newest page of each position of a table's part, from a checkpoint's file on. */
static int
visit_pages(const sim_disk_t *self, const sim_checkpoint_t *checkpoint, uint32_t shard,
            const char *name, int (*visit)(void *visitor, const cadre_table_page_t *page),
            void *visitor)
{
    const sim_pages_t *pages = find_pages(&checkpoint->files[shard], name);
    if (!pages) {
        return cadre_fail(CADRE_ECORRUPT, "%s is not in the file of shard %u", name, shard);
    }
    cadre_auto(sim_pages_walk_fini) sim_pages_walk_t walk;
    sim_pages_walk_init(&walk, pages);
    for (;;) {
        int status = sim_pages_walk(&walk, pages, visit, visitor);
        if (status != 0 || pages->record.base == 0) {
            return status != 0 || walk.count == walk.pages
                       ? status
                       : cadre_fail(CADRE_ECORRUPT, "pages of %s are missing", name);
        }
        checkpoint = find_id(self, pages->record.base);
        pages = checkpoint ? find_pages(&checkpoint->files[shard], name) : NULL;
        if (!pages) {
            return cadre_fail(CADRE_ECORRUPT, "%s has no base", name);
        }
    }
}

static int
load_page(void *context, const cadre_table_page_t *page)
{
    return cadre_table_load_page(context, page->position, page->bytes, page->size_bytes);
}

/* What a file has of a table, with what its bases have, is what the shard had at the cut. */
static void
check_pages(const sim_disk_t *self, const sim_checkpoint_t *draft, uint32_t shard,
            const sim_pages_t *pages)
{
    const cadre_table_spec_t spec = cadre_partition_spec_table(&pages->spec);
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(0);
    cadre_table_t *table = NULL;
    int status = cadre_table_open(&table, &spec, pool);
    status = status ? status : cadre_table_load_begin(table, &pages->snapshot);
    status = status ? status : visit_pages(self, draft, shard, pages->name, load_page, table);
    status = status ? status : cadre_table_load_end(table);
    if (status < 0) {
        sim_check_fail(self->check, "I5: checkpoint %" PRIu64 ", shard %u, table %s: %s", draft->id,
                       shard, pages->name, cadre_error_text());
    }
    self->check->chained += pages->record.base > 0;
    sim_check_table(self->check, draft->files[shard].state,
                    sim_check_variable(self->check, pages->spec.variable), shard, table);
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
}

/* Whether pages of a shard's file stand in one that is damaged. No checkpoint that was begun after
 * a shard had found that out may leave any there. */
static bool
inherits(const sim_disk_t *self, const sim_checkpoint_t *draft, uint32_t shard)
{
    bool found = false;
    for (size_t i = 0; i < draft->files[shard].table_count; i++) {
        const uint64_t id = draft->files[shard].tables[i].record.base;
        const sim_checkpoint_t *base = id > 0 ? find_id(self, id) : NULL;
        found = found || (base && base->damaged >> shard & 1);
        if (base && base->found > 0 && base->found < draft->number) {
            sim_check_fail(self->check,
                           "I5: checkpoint %" PRIu64 " leaves pages to checkpoint %" PRIu64
                           ", which could not be read",
                           draft->id, id);
        }
    }
    return found;
}

static void
check_manifest(const sim_disk_t *self, sim_checkpoint_t *draft, const cadre_manifest_t *manifest)
{
    for (uint32_t i = 0; i < manifest->shard_count; i++) {
        const sim_file_t *file = &draft->files[i];
        if (!file->snapshot || file->hash != manifest->shards[i].hash) {
            sim_check_fail(self->check, "I5: checkpoint %" PRIu64 " has no such file of shard %u",
                           draft->id, i);
        }
        sim_check_commit(self->check, file->state, manifest->id, &manifest->shards[i].state);
        draft->damaged |= inherits(self, draft, i) ? 1U << i : 0;
        for (size_t k = 0; !(draft->damaged >> i & 1) && k < file->table_count; k++) {
            check_pages(self, draft, i, &file->tables[k]);
        }
    }
    check_variables(self, draft);
    for (size_t i = 0; i < manifest->variable_count; i++) {
        const cadre_manifest_variable_t *variable = &manifest->variables[i];
        for (size_t k = 0; k < variable->partition_count; k++) {
            const cadre_manifest_partition_t *partition = &variable->partitions[k];
            if (!holds(&draft->files[partition->shard], variable->name, partition)) {
                sim_check_fail(self->check,
                               "I5: checkpoint %" PRIu64 " names %s, the file of shard %u has no "
                               "such part",
                               draft->id, variable->name, partition->shard);
            }
        }
    }
}

/* Whether it has a part of a table: a later one may leave pages to it, and would be damaged too. */
static bool
has_tables(const sim_checkpoint_t *checkpoint)
{
    bool found = false;
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        found = found || checkpoint->files[i].table_count > 0;
    }
    return found;
}

/* All of it, or the file of one shard: those that are lost then may begin at different cuts. */
static void
damage(const sim_disk_t *self, sim_checkpoint_t *checkpoint)
{
    uint64_t shard = sim_between(self->random, 0, self->check->shard_count - 1);
    checkpoint->unreadable = sim_between(self->random, 0, 2) == 0;
    checkpoint->damaged = checkpoint->unreadable ? UINT32_MAX : 1U << shard;
}

int
sim_disk_commit(sim_disk_t *self, uint64_t id, cadre_manifest_t **manifest_p, const char **path)
{
    sim_checkpoint_t *draft = self->count > 0 ? self->checkpoints[self->count - 1] : NULL;
    if (!draft || draft->manifest || draft->id != id) {
        return cadre_fail(CADRE_EIO, "the disk of the simulation has no such draft");
    }
    check_manifest(self, draft, *manifest_p);
    const sim_checkpoint_t *before = sim_disk_newest(self, false);
    if (before && !before->damaged && !has_tables(draft) && self->damage_every > 0 &&
        self->made % self->damage_every == 0) {
        damage(self, draft);
    }
    draft->holds = held_by(self, draft);
    draft->manifest = *manifest_p;
    *manifest_p = NULL;
    snprintf(draft->path, sizeof(draft->path), "ckpt-%" PRIu64, id);
    *path = draft->path;
    return 0;
}

/* --- reading --- */

/* A shard finds the file of shard `shard` damaged. */
static int
find_damage(const sim_loader_t *self, const char *path, uint32_t shard)
{
    sim_checkpoint_t *checkpoint = sim_disk_find(self->disk, path);
    checkpoint->found = checkpoint->found > 0 ? checkpoint->found : self->disk->made;
    return cadre_fail(CADRE_ECORRUPT, "the file of shard %u is damaged", shard);
}

/* The base to which a file leaves pages of tables; NULL when there is none. */
static sim_checkpoint_t *
base_of(const sim_disk_t *self, const sim_file_t *file)
{
    sim_checkpoint_t *base = NULL;
    for (size_t i = 0; i < file->table_count; i++) {
        const uint64_t id = file->tables[i].record.base;
        base = base || id == 0 ? base : find_id(self, id);
    }
    return base;
}

/* The file of a shard is damaged from now on, sometimes, or its base with it, which is not there
 * for it any more: only the newest that has tables, since no other has left pages to it. */
static void
rot(const sim_loader_t *self, uint32_t shard)
{
    char what[64];
    sim_checkpoint_t *checkpoint = sim_disk_find(self->disk, self->path);
    if (checkpoint != self->disk->doubtful || checkpoint->damaged ||
        checkpoint->files[shard].table_count == 0) {
        return;
    }
    snprintf(what, sizeof(what), "rot of checkpoint %" PRIu64 ", %u", checkpoint->number,
             ++checkpoint->opened);
    const uint64_t drawn = sim_swarm_draw(self->disk->check->seed, what, 0, 9999);
    if (drawn < *self->rots) {
        sim_checkpoint_t *base = base_of(self->disk, &checkpoint->files[shard]);
        checkpoint->damaged = 1U << shard;
        checkpoint->tears = (uint32_t)(drawn / 4 % 8);
        self->disk->check->rotten++;
        if (base && drawn % 4 == 0) {
            base->damaged |= 1U << shard;
            base->tears = checkpoint->tears;
        }
    }
}

static int
fail_sometimes(const sim_loader_t *self, const sim_checkpoint_t *checkpoint)
{
    return checkpoint == self->disk->doubtful && sim_chance(self->random, *self->fails)
               ? cadre_fail(CADRE_EIO, "the disk of the simulation is bad")
               : 0;
}

/* The checkpoint that is open; one that was removed since tells its manifest, not its files. */
static int
find_open(const sim_loader_t *self, bool manifest_only, const sim_checkpoint_t **out)
{
    *out = sim_disk_find(self->disk, self->path);
    if (!*out || !(*out)->manifest || ((*out)->removed && !manifest_only)) {
        return cadre_fail(CADRE_ENOTFOUND, "there is no checkpoint \"%s\"", self->path);
    }
    return (*out)->unreadable
               ? cadre_fail(CADRE_ECORRUPT, "checkpoint \"%s\" is damaged", self->path)
               : fail_sometimes(self, *out);
}

static int
loader_open(void *context, const char *path, uint32_t index, cadre_shard_state_t *state)
{
    sim_loader_t *self = context;
    const sim_checkpoint_t *checkpoint = NULL;
    snprintf(self->path, sizeof(self->path), "%s", path);
    int status = find_open(self, false, &checkpoint);
    if (status == 0) {
        rot(self, index);
        *state = index < checkpoint->manifest->shard_count
                     ? checkpoint->manifest->shards[index].state
                     : (cadre_shard_state_t){.generation = 0};
    }
    return status;
}

static int
loader_find(void *context, const char *variable, cadre_stored_variable_t *out)
{
    const sim_checkpoint_t *checkpoint = NULL;
    int status = find_open(context, true, &checkpoint);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
    }
    const cadre_manifest_variable_t *stored = cadre_manifest_find(checkpoint->manifest, variable);
    if (!stored) {
        return cadre_fail(CADRE_ENOTFOUND, "%s is not in the checkpoint", variable);
    }
    *out = (cadre_stored_variable_t){.dtype = stored->dtype,
                                     .rank = stored->rank,
                                     .table_parts =
                                         stored->table ? (uint32_t)stored->partition_count : 0};
    memcpy(out->shape, stored->shape, sizeof(out->shape));
    return 0;
}

static int
loader_prepare(void *context, const cadre_checkpoint_range_t *range, const cadre_give_up_t *give_up)
{
    const sim_checkpoint_t *checkpoint = NULL;
    (void)range, (void)give_up;
    int status = find_open(context, false, &checkpoint);
    return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
}

/* Copies what a part of a file has of a range; the number of elements. */
static int64_t
copy_part(const cadre_shard_snapshot_part_t *part, int slot, const cadre_checkpoint_range_t *range,
          void *out)
{
    const cadre_partition_snapshot_t *held = &part->references;
    cadre_chunk_t *const *chunks = slot < 0 ? held->values : held->slots[slot];
    size_t size_bytes = cadre_dtype_size(range->dtype);
    int64_t element = 0;
    int64_t count = 0;
    int64_t copied = 0;
    range_of(part, &element, &count);
    for (size_t i = 0; i < held->chunk_count; i++) {
        int64_t elements = (int64_t)(cadre_chunk_size_bytes(chunks[i]) / size_bytes);
        int64_t first = element > range->first_element ? element : range->first_element;
        int64_t end = element + elements;
        int64_t range_end = range->first_element + range->count;
        end = end < range_end ? end : range_end;
        if (first < end) {
            memcpy((char *)out + (size_t)(first - range->first_element) * size_bytes,
                   (const char *)cadre_chunk_data(chunks[i]) +
                       (size_t)(first - element) * size_bytes,
                   (size_t)(end - first) * size_bytes);
            copied += end - first;
        }
        element += elements;
    }
    return copied;
}

static int
slot_of(const cadre_shard_snapshot_part_t *part, const char *kind)
{
    for (size_t i = 0; i < part->references.slot_count; i++) {
        if (strcmp(cadre_optimizer_slot_name(&part->spec.optimizer, i), kind) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int
loader_read(void *context, const cadre_checkpoint_range_t *range, void *out,
            cadre_change_counts_t *counts)
{
    const sim_checkpoint_t *checkpoint = NULL;
    int status = find_open(context, false, &checkpoint);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
    }
    bool is_value = strcmp(range->kind, CADRE_CHECKPOINT_KIND_VALUE) == 0;
    int64_t copied = 0;
    bool found = false;
    *counts = (cadre_change_counts_t){0};
    for (uint32_t i = 0; i < checkpoint->manifest->shard_count; i++) {
        const cadre_shard_snapshot_t *snapshot = checkpoint->files[i].snapshot;
        for (size_t k = 0; k < snapshot->part_count; k++) {
            const cadre_shard_snapshot_part_t *part = &snapshot->parts[k];
            int slot = is_value ? -1 : slot_of(part, range->kind);
            if (strcmp(part->name, range->variable) != 0 || (!is_value && slot < 0)) {
                continue;
            }
            int64_t here = copy_part(part, slot, range, out);
            const bool is_torn = checkpoint->damaged >> i & 1;
            if (here > 0 && is_torn && !(checkpoint->tears & SIM_TEAR_DENSE)) {
                return find_damage(context, checkpoint->path, i);
            }
            found = true;
            copied += here;
            if (here > 0) {
                const cadre_partition_snapshot_t *its = &part->references;
                counts->version =
                    cadre_max_u64(counts->version, is_value ? its->version : its->steps);
                counts->steps = cadre_max_u64(counts->steps, its->steps);
            }
        }
    }
    if (!found) {
        return cadre_fail(CADRE_ENOTFOUND, "%s %s is not there", range->variable, range->kind);
    }
    return copied == range->count ? 0 : cadre_fail(CADRE_ECORRUPT, "elements are missing");
}

static int
loader_table(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
             cadre_table_record_t *record)
{
    const sim_checkpoint_t *checkpoint = NULL;
    (void)give_up;
    int status = find_open(context, false, &checkpoint);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
    }
    if (checkpoint->damaged >> part & 1 && !(checkpoint->tears & SIM_TEAR_DESCRIBED)) {
        return find_damage(context, checkpoint->path, part);
    }
    const sim_pages_t *pages = find_pages(&checkpoint->files[part], variable);
    if (!pages) {
        return cadre_fail(CADRE_ENOTFOUND, "%s has no part %u", variable, part);
    }
    *record = pages->record;
    return 0;
}

/* Whoever visits the pages of a damaged file sees some of them at most. */
typedef struct {
    int (*visit)(void *visitor, const cadre_table_page_t *page);
    void *visitor;
    uint64_t left;
} torn_t;

static int
visit_torn(void *context, const cadre_table_page_t *page)
{
    torn_t *self = context;
    return self->left-- > 0 ? self->visit(self->visitor, page)
                            : cadre_fail(CADRE_ECORRUPT, "a page is damaged");
}

static int
loader_pages(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
             int (*visit)(void *visitor, const cadre_table_page_t *page), void *visitor)
{
    const sim_loader_t *self = context;
    const sim_checkpoint_t *checkpoint = NULL;
    (void)give_up;
    int status = find_open(self, false, &checkpoint);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
    }
    if (checkpoint->damaged >> part & 1) {
        torn_t torn = {visit, visitor, checkpoint->tears & SIM_TEAR_PAGE ? 1 : 0};
        status = visit_pages(self->disk, checkpoint, part, variable, visit_torn, &torn);
        return status < 0 && status != CADRE_ECORRUPT ? status
                                                      : find_damage(self, checkpoint->path, part);
    }
    return visit_pages(self->disk, checkpoint, part, variable, visit, visitor);
}

static int
loader_sightings(void *context, const char *variable, uint32_t part, const cadre_give_up_t *give_up,
                 int (*visit)(void *visitor, const cadre_table_page_t *block), void *visitor)
{
    const sim_checkpoint_t *checkpoint = NULL;
    (void)give_up;
    int status = find_open(context, false, &checkpoint);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? CADRE_EIO : status;
    }
    const sim_pages_t *pages = find_pages(&checkpoint->files[part], variable);
    const cadre_sighting_sketch_t *sketch = pages ? pages->snapshot.sketch : NULL;
    const uint32_t positions = sketch ? cadre_sighting_sketch_positions(sketch) : 0;
    for (uint32_t i = 0; i < positions && status == 0; i++) {
        const cadre_chunk_t *block = cadre_sighting_sketch_block(sketch, i);
        const cadre_table_page_t page = {.position = i,
                                         .bytes = block ? cadre_chunk_data(block) : NULL,
                                         .size_bytes = CADRE_SIGHTING_BLOCK_SIZE};
        status = block ? visit(visitor, &page) : 0;
    }
    return status;
}

static void
loader_close(void *context)
{
    ((sim_loader_t *)context)->path[0] = '\0';
}

cadre_loader_t
sim_disk_loader(sim_loader_t *context)
{
    return (cadre_loader_t){.context = context,
                            .open = loader_open,
                            .find = loader_find,
                            .prepare = loader_prepare,
                            .read = loader_read,
                            .table = loader_table,
                            .pages = loader_pages,
                            .sightings = loader_sightings,
                            .close = loader_close};
}
