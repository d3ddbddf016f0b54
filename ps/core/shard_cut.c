#include "ps/core/shard_cut.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"

struct cadre_shard_cut {
    uint64_t checkpoint; /* checkpoint of the last cut that was opened, or had ended */
    uint64_t confirmed;  /* the last checkpoint that the coordinator named: a worker's PUSH may have
                            named a later one */
    uint64_t closed;     /* the last checkpoint whose cut was closed */
    uint64_t cut;        /* the open cut: updates below it go to images too; 0: none is open */
    cadre_u64_map_t images; /* images of the open cut: cadre_partition_t by cadre_partition_key */
    cadre_u64_map_t tables; /* likewise, cadre_table_t */
    uint64_t known[CADRE_CUTS_KNOWN_MAX]; /* checkpoints whose cuts were closed, the last ones */
    size_t known_count;                   /* how many there ever were */
    cadre_ps_counters_t counters; /* what the shard had counted at the cut, and stragglers since */
};

cadre_shard_cut_t *
cadre_shard_cut_new(void)
{
    return cadre_calloc(1, sizeof(cadre_shard_cut_t));
}

/* Frees the images, so that no cut is open; `checkpoint` stays, so the cut is not opened again. */
static void
drop_images(cadre_shard_cut_t *self)
{
    cadre_partition_t *image = NULL;
    for (size_t cursor = 0; (image = cadre_u64_map_next(&self->images, &cursor));) {
        cadre_partition_close(&image);
    }
    cadre_u64_map_fini(&self->images);
    cadre_table_t *table = NULL;
    for (size_t cursor = 0; (table = cadre_u64_map_next(&self->tables, &cursor));) {
        cadre_table_close(&table);
    }
    cadre_u64_map_fini(&self->tables);
    self->cut = 0;
}

void
cadre_shard_cut_clear(cadre_shard_cut_t *self)
{
    drop_images(self);
    *self = (cadre_shard_cut_t){.checkpoint = 0};
}

void
cadre_shard_cut_destroy(cadre_shard_cut_t **self_p)
{
    if (*self_p) {
        drop_images(*self_p);
        cadre_free(self_p);
    }
}

/* Opens a cut: forks every part, so that the images hold what the parts hold now. */
void
cadre_shard_cut_open(cadre_shard_cut_t *self, uint64_t checkpoint, uint64_t cut,
                     const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters)
{
    if (checkpoint <= self->checkpoint) {
        return;
    }
    drop_images(self); /* those of an earlier checkpoint, if its CHECKPOINT_END was lost */
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_shard_parts_next(parts, &cursor));) {
        if (part->table) {
            cadre_u64_map_put(&self->tables, cadre_shard_part_key(part),
                              cadre_table_fork(part->table, checkpoint));
        } else {
            cadre_u64_map_put(&self->images, cadre_shard_part_key(part),
                              cadre_partition_fork(part->partition));
        }
    }
    self->checkpoint = checkpoint;
    self->cut = cut;
    self->counters = *counters;
}

/* Notes that the coordinator has ended a checkpoint, and drops its images. */
void
cadre_shard_cut_end(cadre_shard_cut_t *self, uint64_t checkpoint)
{
    self->confirmed = checkpoint > self->confirmed ? checkpoint : self->confirmed;
    if (checkpoint >= self->checkpoint) {
        drop_images(self);
        self->checkpoint = checkpoint; /* so that its SNAPSHOT, if it comes late, opens nothing */
    }
}

/* Opens the cut that the coordinator's SNAPSHOT names, or finds it open already, by a PUSH that
 * came before. */
int
cadre_shard_cut_confirm(cadre_shard_cut_t *self, const cadre_snapshot_message_t *message,
                        const cadre_shard_parts_t *parts, const cadre_ps_counters_t *counters)
{
    if (message->checkpoint < self->checkpoint) {
        uint64_t other = self->checkpoint;
        if (message->checkpoint > self->confirmed) {
            drop_images(self); /* a PUSH had named a checkpoint that the coordinator never began */
            self->checkpoint = self->confirmed;
        }
        return cadre_fail(CADRE_EFENCED, "checkpoint %" PRIu64 " came after %" PRIu64,
                          message->checkpoint, other);
    }
    if (message->checkpoint == self->checkpoint && self->cut && message->cut != self->cut) {
        return cadre_fail(CADRE_EINVALID, "the cut was opened at %" PRIu64 ", not at %" PRIu64,
                          self->cut, message->cut);
    }
    cadre_shard_cut_open(self, message->checkpoint, message->cut, parts, counters);
    self->confirmed = message->checkpoint;
    return 0;
}

/* --- stragglers, while a cut is open --- */

bool
cadre_shard_cut_is_below(const cadre_shard_cut_t *self, uint64_t update)
{
    return update < self->cut;
}

bool
cadre_shard_cut_is_before(const cadre_shard_cut_t *self, uint64_t checkpoint)
{
    return self->cut && checkpoint < self->checkpoint;
}

cadre_shard_image_t
cadre_shard_cut_image(const cadre_shard_cut_t *self, const cadre_shard_part_t *part)
{
    const uint64_t key = cadre_shard_part_key(part);
    return (cadre_shard_image_t){.partition = cadre_u64_map_get(&self->images, key),
                                 .table = cadre_u64_map_get(&self->tables, key)};
}

uint64_t
cadre_shard_cut_checkpoint(const cadre_shard_cut_t *self)
{
    return self->checkpoint;
}

void
cadre_shard_cut_drop(cadre_shard_cut_t *self, const cadre_shard_part_t *part)
{
    cadre_partition_t *image = cadre_u64_map_take(&self->images, cadre_shard_part_key(part));
    cadre_partition_close(&image);
    cadre_table_t *table = cadre_u64_map_take(&self->tables, cadre_shard_part_key(part));
    cadre_table_close(&table);
}

void
cadre_shard_cut_note_update(cadre_shard_cut_t *self, uint64_t size_bytes, uint64_t rows,
                            uint64_t staleness)
{
    cadre_ps_counters_note_update(&self->counters, size_bytes, rows, staleness);
}

void
cadre_shard_cut_note_assign(cadre_shard_cut_t *self)
{
    cadre_ps_counters_note(&self->counters, CADRE_PS_COUNTER_assigned);
}

void
cadre_shard_cut_note_late(cadre_shard_cut_t *self, bool is_compensated)
{
    cadre_ps_counters_note_late(&self->counters, is_compensated);
}

/* --- closing --- */

/* Returns the stamp of what a writer writes for a checkpoint; never 0. */
static uint64_t
stamp_of(uint64_t writer, uint64_t checkpoint)
{
    return cadre_table_mix(writer ^ cadre_table_mix(checkpoint)) | 1;
}

/* Returns the checkpoint whose pages of a table may be left out, {0, 0} where all are written: it
 * is the one that was asked for if this shard has written that one, with the table in it, or has
 * loaded the table from it. */
static cadre_table_base_t
base_of(const cadre_shard_cut_t *self, const cadre_shard_part_t *part, uint64_t since,
        uint64_t writer)
{
    if (since == 0 || since == part->base.checkpoint) {
        return since == 0 ? (cadre_table_base_t){0} : part->base;
    }
    for (size_t i = 0; i < self->known_count && i < CADRE_CUTS_KNOWN_MAX; i++) {
        if (self->known[i] == since && since > part->after) {
            return (cadre_table_base_t){since, stamp_of(writer, since)};
        }
    }
    return (cadre_table_base_t){0};
}

/* Moves the image of a table into a snapshot. */
static void
take_table(cadre_shard_cut_t *self, const cadre_close_cut_message_t *message, uint64_t writer,
           const cadre_shard_part_t *part, cadre_shard_snapshot_t *snapshot)
{
    cadre_table_t *table = cadre_u64_map_take(&self->tables, cadre_shard_part_key(part));
    const cadre_table_base_t own = {message->checkpoint, stamp_of(writer, message->checkpoint)};
    const cadre_table_base_t base = base_of(self, part, message->since, writer);
    cadre_table_freeze(table);
    cadre_shard_snapshot_add_table(snapshot, part, &table, own, base);
}

/* Returns a snapshot of the images: references to their chunks, nothing is copied. Leaves out a
 * part whose variable was dropped before the cut (RETIRE). Such a part may have an image, because a
 * PUSH may open a cut before RETIRE has come. */
static cadre_shard_snapshot_t *
take(cadre_shard_cut_t *self, const cadre_close_cut_message_t *message, uint64_t writer,
     const cadre_shard_parts_t *parts)
{
    cadre_shard_snapshot_t *snapshot = cadre_shard_snapshot_new(
        message->checkpoint, message->directory, cadre_shard_parts_count(parts));
    snapshot->state =
        (cadre_shard_state_t){.window_base = message->cut, .generation = message->generation};
    cadre_ps_counters_store(&self->counters, &snapshot->state);
    memcpy(snapshot->counters, self->counters.items, sizeof(snapshot->counters));
    snapshot->step = self->counters.step;
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_shard_parts_next(parts, &cursor));) {
        const cadre_shard_image_t image = cadre_shard_cut_image(self, part);
        if (!cadre_shard_part_is_in(part, message->checkpoint)) {
            continue;
        }
        if (image.table) {
            take_table(self, message, writer, part, snapshot);
        } else if (image.partition) {
            cadre_shard_snapshot_add(snapshot, part->name, image.partition);
        }
    }
    return snapshot;
}

/* Closes the cut that CLOSE_CUT names: makes a snapshot of its images and drops them. */
int
cadre_shard_cut_close(cadre_shard_cut_t *self, const cadre_close_cut_message_t *message,
                      uint64_t writer, const cadre_shard_parts_t *parts,
                      cadre_shard_snapshot_t **out)
{
    if (message->checkpoint == self->closed) {
        return 0; /* a retransmitted CLOSE_CUT */
    }
    if (!self->cut || message->checkpoint != self->checkpoint || message->cut != self->cut) {
        return cadre_fail(
            CADRE_ESTATE,
            "cut %" PRIu64 " of checkpoint %" PRIu64 " is not open: that of %" PRIu64 " is %s",
            message->cut, message->checkpoint, self->checkpoint, self->cut ? "open" : "closed");
    }
    *out = take(self, message, writer, parts);
    self->closed = message->checkpoint;
    self->known[self->known_count++ % CADRE_CUTS_KNOWN_MAX] = message->checkpoint;
    drop_images(self);
    return 0;
}
