#include "ps/core/checkpoint_load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "ps/core/table_load.h"

enum {
    PIECES_AT_ONCE = 64,  /* chunks read between two looks at whether the load is given up */
    SMALL_SIZE = 1 << 20, /* a partition with its slots of so many bytes is read by one thread:
                             starting others takes longer */
};

/* What became of one chunk. */
typedef struct {
    int status;
    cadre_change_counts_t counts;
    char *text; /* text of a failure: a copy, since error texts belong to the thread that failed */
} piece_t;

/* A partition that is being read. Piece i is chunk i % chunks of the values (i / chunks = 0) or of
 * slot i / chunks - 1. */
typedef struct {
    cadre_checkpoint_load_t *load;
    const cadre_loader_t *loader;
    size_t chunks;
    size_t own;   /* how many pieces the values and the optimizer's own slots have */
    size_t count; /* how many pieces there are; those of the average come last */
    size_t first; /* the first piece of the run of pieces being read now */
    piece_t *pieces;
} work_t;

cadre_checkpoint_load_t *
cadre_checkpoint_load_new(uint64_t number)
{
    cadre_checkpoint_load_t *self = cadre_calloc(1, sizeof(*self));
    self->number = number;
    return self;
}

/* Frees the load, and the partition where it was not taken out. */
void
cadre_checkpoint_load_destroy(cadre_checkpoint_load_t **self_p)
{
    cadre_checkpoint_load_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_partition_close(&self->partition);
    cadre_table_close(&self->table);
    free(self->path);
    free(self);
}

/* Returns which slot the piece with this index belongs to; -1 for the values. */
static int
slot_of(const work_t *self, size_t index)
{
    return (int)(index / self->chunks) - 1;
}

/* Returns which elements of the variable chunk `k` of the values (slot < 0) or of a slot holds. */
static cadre_checkpoint_range_t
range_of(const cadre_checkpoint_load_t *load, int slot, size_t k)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(load->partition);
    const cadre_chunk_layout_t *layout = cadre_partition_layout(load->partition);
    size_t element_size = cadre_dtype_size(spec->dtype);
    size_t row_size_bytes = spec->rows > 0 ? layout->size_bytes / (size_t)spec->rows : 0;
    int64_t first = (int64_t)(row_size_bytes / element_size) * spec->first_row;
    return (cadre_checkpoint_range_t){
        .variable = load->name,
        .kind = slot < 0 ? CADRE_CHECKPOINT_KIND_VALUE
                         : cadre_optimizer_slot_name(&spec->optimizer, (size_t)slot),
        .dtype = slot < 0 ? spec->dtype : CADRE_F32,
        .first_element = first + (int64_t)(cadre_chunk_layout_offset(layout, k) / element_size),
        .count = (int64_t)(cadre_chunk_layout_size(layout, k) / element_size)};
}

/* Reads one chunk of the checkpoint into its place in the partition; called on the lanes' threads.
 * `index` counts from the first piece of the present run. */
static void
read_piece(void *context, size_t index)
{
    const work_t *self = context;
    index += self->first;
    piece_t *piece = &self->pieces[index];
    int slot = slot_of(self, index);
    size_t k = index % self->chunks;
    cadre_checkpoint_range_t range = range_of(self->load, slot, k);
    void *out = cadre_partition_blank(self->load->partition, slot, k);
    piece->status = self->loader->read(self->loader->context, &range, out, &piece->counts);
    if (piece->status < 0) {
        cadre_fail_within(piece->status, "%s", range.kind);
        piece->text = cadre_strdup(cadre_error_text());
    }
}

static void
initialise_piece(void *context, size_t index)
{
    const work_t *self = context;
    index += self->first;
    cadre_partition_initialise(self->load->partition, slot_of(self, index), index % self->chunks);
}

/* Calls `each` for all pieces from `from` on, on the lanes; fails when the load is given up. */
static int
for_all(work_t *self, size_t from, const cadre_lanes_t *lanes, const cadre_give_up_t *give_up,
        void (*each)(void *context, size_t index))
{
    static const cadre_lanes_t here = {NULL, NULL};
    const cadre_partition_spec_t *spec = cadre_partition_spec(self->load->partition);
    size_t size_bytes = cadre_partition_layout(self->load->partition)->size_bytes *
                        (1 + cadre_optimizer_slot_count(&spec->optimizer));
    /* Starting other threads takes longer than reading so little. */
    lanes = size_bytes < SMALL_SIZE ? &here : lanes;
    for (self->first = from; self->first < self->count; self->first += PIECES_AT_ONCE) {
        if (cadre_give_up(give_up)) {
            return cadre_fail(CADRE_ECANCELLED, "the load was given up");
        }
        size_t left = self->count - self->first;
        cadre_lanes_run(lanes, left < PIECES_AT_ONCE ? left : PIECES_AT_ONCE, each, self);
    }
    return 0;
}

/* Checks that the checkpoint holds the variable. Fails with CADRE_ENOTFOUND when it does not, with
 * CADRE_EDTYPE or CADRE_ESHAPE when it holds one of that name and another dtype or shape. */
static int
check_stored(const cadre_checkpoint_load_t *load, const cadre_loader_t *loader)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(load->partition);
    cadre_stored_variable_t stored = {.rank = 0};
    int status = loader->find(loader->context, load->name, &stored);
    if (status < 0) {
        return status;
    }
    if (stored.table_parts > 0) {
        return cadre_fail(CADRE_ESHAPE, "the checkpoint holds a table of this name");
    }
    if (stored.dtype != spec->dtype) {
        return cadre_fail(CADRE_EDTYPE, "the checkpoint holds it with another dtype");
    }
    if (stored.rank != spec->rank ||
        memcmp(stored.shape, spec->shape, sizeof(spec->shape[0]) * (size_t)spec->rank) != 0) {
        return cadre_fail(CADRE_ESHAPE, "the checkpoint holds it with another shape");
    }
    return 0;
}

/* Returns the largest version, and the most steps, of `count` pieces from `first` on. */
static cadre_change_counts_t
changes_of(const work_t *self, size_t first, size_t count)
{
    cadre_change_counts_t counts = {0};
    for (size_t k = first; k < first + count; k++) {
        const cadre_change_counts_t *of_piece = &self->pieces[k].counts;
        counts.version = cadre_max_u64(counts.version, of_piece->version);
        counts.steps = cadre_max_u64(counts.steps, of_piece->steps);
    }
    return counts;
}

/* Returns the first failure of the pieces, CADRE_ECORRUPT where values are missing; else 0. A
 * missing slot is no failure: the checkpoint was written with another optimizer, and then no slot
 * of it is used (`lacks_slots`); nor is a missing average (`lacks_average`). */
static int
judge(const work_t *self, bool *lacks_slots, bool *lacks_average)
{
    *lacks_slots = false;
    *lacks_average = false;
    for (size_t i = 0; i < self->count; i++) {
        const piece_t *piece = &self->pieces[i];
        if (piece->status == CADRE_ENOTFOUND && i >= self->own) {
            *lacks_average = true;
        } else if (piece->status == CADRE_ENOTFOUND && i >= self->chunks) {
            *lacks_slots = true;
        } else if (piece->status == CADRE_ENOTFOUND) {
            return cadre_fail(CADRE_ECORRUPT, "the checkpoint names it and has no values of it");
        } else if (piece->status < 0) {
            return cadre_fail(piece->status, "%s", piece->text);
        }
    }
    return 0;
}

/* Fails where slots that were read are of another step of the optimizer than the values. */
static int
check_steps(const work_t *self)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(self->load->partition);
    for (size_t k = 0; k < self->chunks; k++) {
        const cadre_change_counts_t *of_values = &self->pieces[k].counts;
        for (size_t i = k + self->chunks; i < self->count; i += self->chunks) {
            const piece_t *piece = &self->pieces[i];
            if (piece->status < 0 || cadre_change_counts_fit(of_values, piece->counts.steps)) {
                continue;
            }
            return cadre_fail(CADRE_ECORRUPT,
                              "the checkpoint has its values of step %" PRIu64
                              " and slot %s of step %" PRIu64,
                              of_values->steps,
                              cadre_optimizer_slot_name(&spec->optimizer, (size_t)slot_of(self, i)),
                              piece->counts.steps);
        }
    }
    return 0;
}

/* Begins the running average with the loaded values where the variable keeps one and the checkpoint
 * lacks it (`is_lacking`). */
static void
begin_average(const work_t *self, bool is_lacking)
{
    const bool is_kept = self->own < self->count;
    for (size_t k = 0; is_kept && is_lacking && k < self->chunks; k++) {
        cadre_partition_begin_average(self->load->partition, k);
    }
}

/* Sets version and steps of the partition that was loaded. Steps are those of the slots, and begin
 * at 0 with them; an optimizer without slots goes on with the steps of the values. */
static void
restore_counts(const work_t *self, bool lacks_slots)
{
    const size_t slots = self->own - self->chunks;
    const cadre_change_counts_t of_values = changes_of(self, 0, self->chunks);
    uint64_t steps = of_values.steps;
    if (slots > 0) {
        steps = lacks_slots ? 0 : changes_of(self, self->chunks, slots).steps;
    }
    cadre_partition_restore_counts(self->load->partition, of_values.version, steps);
}

/* Fills the partition from the checkpoint, on all lanes; with initial values where the checkpoint
 * lacks it. */
static int
fill(work_t *self, const cadre_lanes_t *lanes, const cadre_give_up_t *give_up)
{
    cadre_checkpoint_load_t *load = self->load;
    int status = check_stored(load, self->loader);
    if (status == CADRE_ENOTFOUND) {
        return for_all(self, 0, lanes, give_up, initialise_piece);
    }
    load->found = status == 0;
    /* Verifies the files that hold the values, before other threads read them. */
    for (size_t k = 0; status == 0 && k < self->chunks; k++) {
        cadre_checkpoint_range_t range = range_of(load, -1, k);
        status = self->loader->prepare(self->loader->context, &range, give_up);
    }
    bool lacks_slots = false;
    bool lacks_average = false;
    if (status == 0) {
        status = for_all(self, 0, lanes, give_up, read_piece);
    }
    if (status == 0) {
        status = judge(self, &lacks_slots, &lacks_average);
    }
    status = status < 0 ? status : check_steps(self);
    /* The slots get initial values, since the checkpoint has those of another optimizer. */
    if (status == 0 && lacks_slots) {
        status = for_all(self, self->chunks, lanes, give_up, initialise_piece);
    }
    if (status == 0) {
        begin_average(self, lacks_slots || lacks_average);
        restore_counts(self, lacks_slots);
    }
    return status;
}

/* Fills the partition of a load, of which every chunk of values and slots is one piece of work, and
 * frees what the pieces needed. */
static int
fill_partition(cadre_checkpoint_load_t *load, const cadre_loader_t *loader,
               const cadre_lanes_t *lanes, const cadre_give_up_t *give_up)
{
    const cadre_partition_spec_t *spec = cadre_partition_spec(load->partition);
    work_t work = {
        .load = load, .loader = loader, .chunks = cadre_partition_layout(load->partition)->count};
    work.count = work.chunks * (1 + cadre_optimizer_slot_count(&spec->optimizer));
    work.own = work.chunks * (1 + cadre_optimizer_average_slot(&spec->optimizer));
    work.pieces = cadre_calloc(work.count, sizeof(*work.pieces));
    int status = fill(&work, lanes, give_up);
    for (size_t i = 0; i < work.count; i++) {
        free(work.pieces[i].text);
    }
    free(work.pieces);
    return status;
}

/* Fills the table of a load; it has no rows where the checkpoint lacks it. */
static int
fill_table(cadre_checkpoint_load_t *load, const cadre_loader_t *loader,
           const cadre_give_up_t *give_up)
{
    cadre_stored_variable_t stored = {.rank = 0};
    int status = loader->find(loader->context, load->name, &stored);
    if (status < 0) {
        return status == CADRE_ENOTFOUND ? 0 : status;
    }
    if (stored.table_parts == 0) {
        return cadre_fail(CADRE_ESHAPE, "the checkpoint holds a dense variable of this name");
    }

    const cadre_table_load_t its = {.name = load->name,
                                    .part = (uint32_t)load->spec.partition,
                                    .parts = (uint32_t)load->spec.partitions,
                                    .size_bytes_max = load->size_bytes_max};
    load->found = true;
    return cadre_table_load(load->table, &its, stored.table_parts, loader, give_up, &load->base);
}

/* Carries a load out: fills its partition where it has no path, opens the checkpoint at its path,
 * or closes the one that is open where the path is "". */
void
cadre_checkpoint_load_run(cadre_checkpoint_load_t *self, const cadre_loader_t *loader,
                          const cadre_lanes_t *lanes, const cadre_give_up_t *give_up)
{
    if (self->table) {
        self->status = fill_table(self, loader, give_up);
    } else if (!self->path) {
        self->status = fill_partition(self, loader, lanes, give_up);
    } else if (self->path[0]) {
        self->status = loader->open(loader->context, self->path, self->index, &self->state);
    } else {
        loader->close(loader->context);
    }
    if (self->status < 0) {
        snprintf(self->text, sizeof(self->text), "%.*s", (int)sizeof(self->text) - 1,
                 cadre_error_text());
    }
}
