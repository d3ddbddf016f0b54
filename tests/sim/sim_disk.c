#include "tests/sim/sim_disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"

static void
remove_files(sim_checkpoint_t *checkpoint)
{
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++) {
        cadre_shard_snapshot_destroy(&checkpoint->files[i].snapshot);
        sim_state_destroy(&checkpoint->files[i].state);
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

void
sim_disk_retain(sim_disk_t *self, uint64_t oldest)
{
    for (size_t i = 0; i + self->keep < self->count; i++) {
        if (self->checkpoints[i]->id < oldest) {
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
        if (self->checkpoints[i - 1]->manifest && !(sound && self->checkpoints[i - 1]->damaged)) {
            return self->checkpoints[i - 1];
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
    cadre_shard_snapshot_destroy(&file->snapshot);
    sim_state_destroy(&file->state);
    *file = (sim_file_t){.snapshot = snapshot, .state = *state_p, .hash = *hash};
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

static void
check_manifest(const sim_disk_t *self, const sim_checkpoint_t *draft,
               const cadre_manifest_t *manifest)
{
    for (uint32_t i = 0; i < manifest->shard_count; i++) {
        const sim_file_t *file = &draft->files[i];
        if (!file->snapshot || file->hash != manifest->shards[i].hash) {
            sim_check_fail(self->check, "I5: checkpoint %" PRIu64 " has no such file of shard %u",
                           draft->id, i);
        }
        sim_check_commit(self->check, file->state, manifest->id, &manifest->shards[i].state);
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
    if (before && !before->damaged && self->damage_every > 0 &&
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
        *state = checkpoint->manifest->shards[index].state;
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
    *out = (cadre_stored_variable_t){.dtype = stored->dtype, .rank = stored->rank};
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
            if (here > 0 && checkpoint->damaged >> i & 1) {
                return cadre_fail(CADRE_ECORRUPT, "the file of shard %u is damaged", i);
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
                            .close = loader_close};
}
