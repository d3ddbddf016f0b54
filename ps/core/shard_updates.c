#include "ps/core/shard_updates.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/wire/record_list.h"
#include "ps/core/applied_window.h"
#include "ps/core/row_update.h"
#include "ps/core/shard_rows.h"
#include "ps/core/shard_steps.h"
#include "ps/core/shard_tables.h"
#include "ps/core/update.h"

struct cadre_shard_updates {
    cadre_lanes_t lanes;
    cadre_lanes_t table_lanes;
    cadre_applied_window_t *window;
    uint64_t assigned;     /* sequence of the last ASSIGN */
    uint64_t refused;      /* sequence of the last ASSIGN that was refused: of those up to it PROBED
                              cannot say whether they were applied */
    cadre_update_t update; /* the update being checked and applied; its memory is used again */
    cadre_shard_steps_t *steps;
};

cadre_shard_updates_t *
cadre_shard_updates_new(const cadre_lanes_t *lanes, const cadre_lanes_t *table_lanes,
                        uint64_t step_bytes_max)
{
    cadre_shard_updates_t *self = cadre_calloc(1, sizeof(*self));
    self->lanes = *lanes;
    self->table_lanes = *table_lanes;
    self->window = cadre_applied_window_new(0);
    self->steps = cadre_shard_steps_new(step_bytes_max);
    return self;
}

void
cadre_shard_updates_destroy(cadre_shard_updates_t **self_p)
{
    cadre_shard_updates_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_applied_window_destroy(&self->window);
    cadre_update_fini(&self->update);
    cadre_shard_steps_destroy(&self->steps);
    cadre_free(self_p);
}

void
cadre_shard_updates_clear(cadre_shard_updates_t *self, uint64_t base)
{
    cadre_applied_window_reset(self->window, base);
    cadre_shard_steps_clear(self->steps);
    self->assigned = 0;
    self->refused = 0;
}

void
cadre_shard_updates_settle(cadre_shard_updates_t *self, uint64_t base)
{
    cadre_applied_window_set_base(self->window, base);
}

uint64_t
cadre_shard_updates_base(const cadre_shard_updates_t *self)
{
    return cadre_applied_window_base(self->window);
}

int
cadre_shard_updates_check(const cadre_shard_updates_t *self, uint64_t update)
{
    return cadre_applied_window_check(self->window, update);
}

/* Returns whether an update or an assignment is known to be applied; 0 for the one that is not
 * asked. */
bool
cadre_shard_updates_has(const cadre_shard_updates_t *self, uint64_t update, uint64_t sequence)
{
    bool is_pushed =
        update > 0 && cadre_applied_window_check(self->window, update) == CADRE_EDUPLICATE;
    bool is_assigned = sequence > self->refused && sequence <= self->assigned;
    return is_pushed || is_assigned;
}

/* --- push --- */

/* Refuses a PUSH that says it comes after a cut although its update id is below that cut. */
static int
check_cut(const cadre_push_message_t *push)
{
    if (push->checkpoint > 0 && push->update < push->cut) {
        return cadre_fail(CADRE_EINVALID,
                          "update %" PRIu64 " says that it comes after cut %" PRIu64, push->update,
                          push->cut);
    }
    return 0;
}

/* Returns the gradients of rows that a part of an update brings, whose chunks begin at `chunks`. */
static cadre_row_gradient_t
rows_of(const cadre_named_part_t *named, cadre_chunk_t *const *chunks)
{
    return (cadre_row_gradient_t){.chunks = chunks, .count = (size_t)named->rows};
}

/* Returns whether an update brings the gradient of a whole partition. A table has none: named
 * without keys, it counts the update. */
static bool
is_whole(const cadre_named_part_t *named)
{
    return named->rows == 0 && !named->part->table;
}

/* Gives how many chunks a part of an update comes in. */
static int
chunk_count(const cadre_named_part_t *named, size_t *out)
{
    const cadre_partition_t *partition = named->part->partition;
    if (named->part->table) {
        return cadre_shard_tables_chunk_count(named->part, named->rows, out);
    }
    if (named->rows > 0) {
        return cadre_row_update_chunk_count(partition, named->rows, out);
    }
    *out = cadre_partition_layout(partition)->count;
    return 0;
}

/* Checks one part of an update: named once, of a version that exists, with chunks of the right
 * number and sizes; of rows also these, and their numbers. `left` is how many chunks the parts
 * before it have left, `*count` how many it has. */
static int
check_part(const cadre_shard_updates_t *self, const cadre_named_part_t *named,
           cadre_chunk_t *const *chunks, size_t left, size_t *count)
{
    const cadre_partition_t *partition = named->part->partition;
    const uint64_t version = cadre_shard_part_version(named->part);
    int status = chunk_count(named, count);
    if (status < 0) {
        return status;
    }
    if (named->is_again) {
        return cadre_fail(CADRE_EINVALID, "named twice");
    }
    if (named->number > version) {
        return cadre_fail(CADRE_EINVALID, "version %" PRIu64 " was pulled, %" PRIu64 " is",
                          named->number, version);
    }
    if (*count > left) {
        return cadre_fail(CADRE_ESHAPE, "%zu chunks instead of %zu", left, *count);
    }
    const cadre_row_gradient_t rows = rows_of(named, chunks);
    if (named->part->table) {
        return cadre_shard_tables_check(named->part, &rows, &self->table_lanes);
    }
    if (named->rows > 0) {
        return cadre_row_update_check(partition, &rows);
    }
    return cadre_partition_check_gradient_sizes(partition, chunks, *count);
}

/* Returns whether a gradient was computed from values that others have changed since, for which it
 * is to be compensated. */
static bool
is_late(const cadre_named_part_t *named)
{
    const cadre_partition_t *partition = named->part->partition;
    return partition && cadre_partition_spec(partition)->optimizer.delay_compensation > 0 &&
           named->number != cadre_partition_version(partition);
}

/* What the checks of an update have found. */
typedef struct {
    uint64_t staleness; /* of the stalest part */
    uint64_t growth;    /* bytes that tables can be larger after it; known if it is held */
} checked_t;

/* Returns about how many bytes larger the tables of a checked update can be after it. */
static uint64_t
growth_of(const cadre_named_parts_t *named, const cadre_message_t *message, bool exactly)
{
    uint64_t growth = 0;
    size_t at = 0;
    for (size_t i = 0; i < named->count; i++) {
        const cadre_named_part_t *item = &named->items[i];
        size_t count = 0;
        (void)chunk_count(item, &count); /* was checked */
        if (item->part->table) {
            const cadre_row_gradient_t rows = rows_of(item, message->chunks + at);
            growth += cadre_shard_tables_growth(item->part, &rows, exactly);
        }
        at += count;
    }
    return growth;
}

/* Checks that there is memory for the rows that an update may make beside those of updates that are
 * held, which were checked when they came and are applied without a check. Its rows are counted
 * only where there might be no memory for all of its keys, and of what is held itself: to look for
 * a key takes as long as to update its row. */
static int
check_growth(const cadre_shard_updates_t *self, const cadre_shard_parts_t *parts,
             const cadre_named_parts_t *named, const cadre_message_t *message, uint64_t *growth)
{
    const uint64_t held = cadre_shard_steps_growth(self->steps);
    const bool exactly = message->push.step > 0 ||
                         growth_of(named, message, false) + held > cadre_shard_parts_room(parts);
    *growth = exactly ? growth_of(named, message, true) : 0;
    return *growth > 0 ? cadre_shard_parts_check_growth(parts, *growth + held) : 0;
}

/* Returns the part among those that an update names that is this partition. */
static const cadre_shard_part_t *
part_of(const cadre_named_parts_t *named, const cadre_partition_t *partition)
{
    size_t i = 0;
    while (named->items[i].part->partition != partition) {
        i++;
    }
    return named->items[i].part;
}

/* Checks all parts of an update before any value is changed, and gathers whole ones in
 * `self->update`. */
static int
check_parts(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
            const cadre_named_parts_t *named, const cadre_message_t *message, checked_t *checked)
{
    size_t at = 0;
    uint64_t stalest = 0;
    cadre_update_clear(&self->update);
    for (size_t i = 0; i < named->count; i++) {
        const cadre_named_part_t *item = &named->items[i];
        size_t count = 0;
        const size_t left = message->chunk_count - at;
        int status = check_part(self, item, left > 0 ? message->chunks + at : NULL, left, &count);
        if (status < 0) {
            return cadre_shard_part_fail(item->part, status);
        }
        if (is_whole(item)) {
            cadre_update_add(&self->update, item->part->partition, message->chunks + at);
        }
        if (is_late(item)) {
            cadre_update_compensate(&self->update,
                                    cadre_partition_pulled(item->part->partition, item->number));
        }
        at += count;
        /* An update without keys was computed from no row of the table. */
        const bool has_rows = is_whole(item) || item->rows > 0;
        uint64_t stale = has_rows ? cadre_shard_part_version(item->part) - item->number : 0;
        stalest = stale > stalest ? stale : stalest;
    }
    *checked = (checked_t){.staleness = stalest};
    if (at != message->chunk_count) {
        return cadre_fail(CADRE_ESHAPE, "%zu chunks are left over", message->chunk_count - at);
    }

    size_t bad = 0;
    if (cadre_update_check(&self->update, &self->lanes, &bad) < 0) {
        return cadre_shard_part_fail(part_of(named, self->update.parts[bad].partition),
                                     CADRE_ENOTFINITE);
    }
    return check_growth(self, target->parts, named, message, &checked->growth);
}

/* Applies gradients of rows to their part, or to an image of it; where the other rows move, too,
 * adds them to `self->update`. */
static void
apply_rows(cadre_shard_updates_t *self, const cadre_named_part_t *named,
           cadre_chunk_t *const *chunks, const cadre_shard_image_t *to)
{
    const cadre_row_gradient_t rows = rows_of(named, chunks);
    if (to->table) {
        cadre_shard_tables_apply(to->table, &named->part->spec, &rows, &self->table_lanes);
    } else if (to->partition && cadre_optimizer_spec_rests(&named->part->spec.optimizer)) {
        cadre_row_update_apply(to->partition, &rows);
    } else if (to->partition) {
        cadre_update_add_rows(&self->update, to->partition, &rows);
    }
}

/* Returns the image of a part that a straggler changes too; nothing for what is none, and for a
 * part that has none. */
static cadre_shard_image_t
image_of(const cadre_shard_target_t *target, const cadre_shard_part_t *part, bool straggles)
{
    return straggles ? cadre_shard_cut_image(target->cut, part)
                     : (cadre_shard_image_t){.partition = NULL};
}

/* Applies a checked update to its parts, and as a straggler to their images too. An update that
 * comes after a cut opens that cut first, in case SNAPSHOT has not come yet. */
static void
apply(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
      const cadre_named_parts_t *named, const cadre_message_t *message, uint64_t staleness)
{
    const cadre_push_message_t *push = &message->push;
    cadre_shard_cut_open(target->cut, push->checkpoint, push->cut, target->parts, target->counters);

    const bool straggles = cadre_shard_cut_is_below(target->cut, push->update);
    uint64_t size_bytes = 0;
    uint64_t rows = 0;
    size_t at = 0;
    for (size_t i = 0; i < named->count; i++) {
        const cadre_shard_part_t *part = named->items[i].part;
        rows += named->items[i].rows;
        cadre_chunk_t *const *chunks = message->chunks + at;
        const bool late = is_late(&named->items[i]);
        cadre_chunk_t *const *pulled =
            part->partition ? cadre_partition_pulled(part->partition, named->items[i].number)
                            : NULL;
        const cadre_shard_image_t image = image_of(target, part, straggles);
        size_t count = 0;
        (void)chunk_count(&named->items[i], &count); /* was checked */
        if (!is_whole(&named->items[i])) {
            apply_rows(self, &named->items[i], chunks,
                       &(cadre_shard_image_t){part->partition, part->table});
            apply_rows(self, &named->items[i], chunks, &image);
            cadre_shard_parts_note(target->parts, part);
        } else if (image.partition) {
            cadre_update_add(&self->update, image.partition, chunks);
            cadre_update_compensate(&self->update, pulled);
        }
        if (late) {
            cadre_ps_counters_note_late(target->counters, pulled != NULL);
        }
        if (image.partition && late) {
            cadre_shard_cut_note_late(target->cut, pulled != NULL);
        }
        at += count;
    }
    for (size_t k = 0; k < message->chunk_count; k++) {
        size_bytes += cadre_chunk_size_bytes(message->chunks[k]);
    }

    cadre_update_apply(&self->update, &self->lanes);
    cadre_applied_window_mark(self->window, push->update);
    cadre_ps_counters_note_update(target->counters, size_bytes, rows, staleness);
    if (straggles) {
        cadre_shard_cut_note_update(target->cut, size_bytes, rows, staleness);
    }
}

/* Holds an update of a synchronous step until the step ends. It is marked as applied already, so
 * that a retransmitted PUSH is a duplicate. */
static void
hold(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
     const cadre_named_parts_t *named, const cadre_message_t *message, uint64_t growth)
{
    const cadre_push_message_t *push = &message->push;
    cadre_auto(cadre_free) cadre_held_part_t *parts = cadre_calloc(named->count, sizeof(*parts));
    size_t at = 0;
    for (size_t i = 0; i < named->count; i++) {
        const cadre_shard_part_t *part = named->items[i].part;
        size_t count = 0;
        (void)chunk_count(&named->items[i], &count); /* was checked */
        parts[i] = (cadre_held_part_t){part->spec.variable, part->spec.partition, at,
                                       named->items[i].rows};
        at += count;
    }
    cadre_shard_cut_open(target->cut, push->checkpoint, push->cut, target->parts, target->counters);
    cadre_shard_steps_hold(self->steps, message, parts, named->count, growth);
    cadre_applied_window_mark(self->window, push->update);
}

/* Refuses an update of a synchronous step that has ended: the step has left its closure out, which
 * had failed or was cancelled. */
static int
check_step(const cadre_shard_updates_t *self, const cadre_push_message_t *push)
{
    const uint64_t last = cadre_shard_steps_last(self->steps);
    if (push->step > 0 && push->step <= last) {
        return cadre_fail(CADRE_ESTATE, "step %" PRIu64 " has ended, the last one is %" PRIu64,
                          push->step, last);
    }
    return 0;
}

/* Checks an update as a whole, then applies it, or holds it if it is of a synchronous step; nothing
 * changes when a check fails. */
int
cadre_shard_updates_push(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                         const cadre_message_t *message, uint64_t *staleness)
{
    const cadre_push_message_t *push = &message->push;
    cadre_named_parts_t named = {.count = 0};
    /* First of all: a duplicate is answered as such, whatever else is wrong with it. */
    int status = cadre_applied_window_check(self->window, push->update);
    if (status < 0) {
        return status;
    }
    status = check_step(self, push);
    if (status < 0) {
        return status;
    }
    status = check_cut(push);
    if (status < 0) {
        return status;
    }
    status = cadre_shard_parts_find_pushed(target->parts, push, &named);
    if (status < 0) {
        return status;
    }
    checked_t checked = {.staleness = 0};
    status = check_parts(self, target, &named, message, &checked);
    *staleness = checked.staleness;
    if (status < 0) {
        return status;
    }
    if (push->step > 0) {
        status = cadre_shard_steps_check_room(self->steps, message);
        if (status < 0) {
            return status;
        }
        hold(self, target, &named, message, checked.growth);
    } else {
        apply(self, target, &named, message, *staleness);
    }
    return 0;
}

/* --- the end of a step --- */

/* What one update of a step contributes to one part: its term of the sum. */
typedef struct {
    const cadre_shard_part_t *part;
    size_t order; /* place of the update in the sum */
    cadre_gradient_term_t term;
} share_t;

/* Orders shares by part, and within a part by the place of their update in the sum. */
static int
compare_shares(const void *left, const void *right)
{
    const share_t *a = left;
    const share_t *b = right;
    const uint64_t key_a = cadre_shard_part_key(a->part);
    const uint64_t key_b = cadre_shard_part_key(b->part);
    if (key_a != key_b) {
        return key_a > key_b ? 1 : -1;
    }
    return (a->order > b->order) - (a->order < b->order);
}

/* Writes to `out` the shares of a held update, one for each of its parts that still exists, and
 * counts the update; returns how many shares there are. */
static size_t
share(const cadre_shard_target_t *target, const cadre_held_update_t *held, size_t order,
      float weight, share_t *out)
{
    size_t count = 0;
    uint64_t rows = 0;
    for (size_t i = 0; i < held->part_count; i++) {
        const cadre_held_part_t *from = &held->parts[i];
        rows += from->rows;
        const cadre_shard_part_t *part = NULL;
        if (cadre_shard_parts_find(target->parts, from->variable, from->partition, &part) == 0) {
            cadre_chunk_t *const *chunks = held->chunks + from->first_chunk;
            out[count++] =
                (share_t){.part = part,
                          .order = order,
                          .term = {.chunks = chunks, .rows = (size_t)from->rows, .weight = weight}};
        }
    }
    /* Staleness 0: all closures of a step pull the values that the step before made. */
    cadre_ps_counters_note_update(target->counters, held->size_bytes, rows, 0);
    return count;
}

/* Returns the gradients of rows of a share. */
static cadre_row_gradient_t
rows_of_share(const share_t *share)
{
    return (cadre_row_gradient_t){.chunks = share->term.chunks, .count = share->term.rows};
}

/* Applies the sum of shares of one part that are all of rows, while its other rows rest. */
static void
apply_row_shares(const cadre_shard_updates_t *self, cadre_shard_parts_t *parts,
                 const share_t *shares, size_t count)
{
    cadre_auto(cadre_free) cadre_row_term_t *terms = cadre_calloc(count, sizeof(*terms));
    for (size_t i = 0; i < count; i++) {
        terms[i] = (cadre_row_term_t){.gradient = rows_of_share(&shares[i]),
                                      .weight = shares[i].term.weight};
    }
    const cadre_shard_part_t *part = shares[0].part;
    if (part->table) {
        cadre_shard_tables_apply_sum(part->table, &part->spec, terms, count, &self->table_lanes);
        cadre_shard_parts_note(parts, part);
    } else {
        cadre_row_update_apply_sum(part->partition, terms, count);
    }
}

/* Returns whether the shares of one part, which `shares` begins with, leave rows at rest: they are
 * all of rows, of a part that lets the others rest; `*end`: how many there are. */
static bool
do_rest(const share_t *shares, size_t count, size_t *end)
{
    size_t of_rows = 0;
    *end = 0;
    while (*end < count && shares[*end].part == shares[0].part) {
        of_rows += shares[*end].term.rows > 0 || shares[*end].part->table;
        ++*end;
    }
    const cadre_shard_part_t *part = shares[0].part;
    return of_rows == *end && (part->table || cadre_optimizer_spec_rests(&part->spec.optimizer));
}

/* Applies the shares, which are sorted by part and order: each part takes one step, with the sum of
 * its shares. */
static void
apply_shares(cadre_shard_updates_t *self, cadre_shard_parts_t *parts, share_t *shares, size_t count)
{
    cadre_auto(cadre_free) cadre_gradient_term_t *terms = cadre_calloc(count, sizeof(*terms));
    for (size_t i = 0; i < count; i++) {
        terms[i] = shares[i].term;
    }
    cadre_update_clear(&self->update);
    for (size_t first = 0, end = 0; first < count; first += end) {
        if (do_rest(&shares[first], count - first, &end)) {
            apply_row_shares(self, parts, &shares[first], end);
        } else {
            const cadre_gradient_sum_t sum = {terms + first, end};
            cadre_update_add_sum(&self->update, shares[first].part->partition, &sum);
        }
    }
    cadre_update_apply(&self->update, &self->lanes);
}

static int
compare_ids(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Refuses a list of updates that names one twice: it would count twice. */
static int
check_once(const cadre_step_update_list_t *list)
{
    cadre_auto(cadre_free) uint64_t *ids = cadre_calloc(list->count, sizeof(*ids));
    for (size_t i = 0; i < list->count; i++) {
        ids[i] = list->items[i].update;
    }
    qsort(ids, list->count, sizeof(*ids), compare_ids);
    for (size_t i = 1; i < list->count; i++) {
        if (ids[i] == ids[i - 1]) {
            return cadre_fail(CADRE_EINVALID, "update %" PRIu64 " is named twice", ids[i]);
        }
    }
    return 0;
}

/* Checks the updates that END_STEP names before any value is changed: a weight for each, so that
 * the mean is a number, and none that is held for another step. An update that is not held is fine:
 * its closure may have pushed nothing to this shard. */
static int
check_ended(const cadre_shard_updates_t *self, const cadre_end_step_message_t *message)
{
    const cadre_step_update_list_t list = cadre_step_update_list_view(&message->updates);
    if (cadre_step_update_list(list.items, list.count).count != message->updates.count) {
        return cadre_fail(CADRE_EMALFORMED, "a list of updates has %zu numbers",
                          message->updates.count);
    }
    for (size_t i = 0; i < list.count; i++) {
        const cadre_step_update_t *update = &list.items[i];
        const cadre_held_update_t *held = cadre_shard_steps_find(self->steps, update->update);
        if (update->rows == 0) {
            return cadre_fail(CADRE_EINVALID, "update %" PRIu64 " has no rows", update->update);
        }
        if (held && held->step != message->step) {
            return cadre_fail(CADRE_EINVALID,
                              "update %" PRIu64 " is of step %" PRIu64 ", not of %" PRIu64,
                              update->update, held->step, message->step);
        }
    }
    return check_once(&list);
}

/* Refuses the end of a step where another step has ended last here than the coordinator knows of:
 * the values are not those that its updates were computed from. */
static int
check_after(const cadre_shard_updates_t *self, const cadre_end_step_message_t *message)
{
    const uint64_t last = cadre_shard_steps_last(self->steps);
    return message->after == last ? 0
                                  : cadre_fail(CADRE_ESTATE,
                                               "step %" PRIu64 " comes after step %" PRIu64
                                               ", and the last one here is %" PRIu64,
                                               message->step, message->after, last);
}

/* Ends a step: gathers the shares of the updates that END_STEP names, each weighted by its rows,
 * applies their sum part by part, and drops the updates that END_STEP does not name. A repeated
 * END_STEP changes nothing. */
int
cadre_shard_updates_end_step(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                             const cadre_end_step_message_t *message)
{
    if (message->step <= cadre_shard_steps_last(self->steps)) {
        return 0;
    }
    int status = check_after(self, message);
    if (status < 0) {
        return status;
    }
    status = check_ended(self, message);
    if (status < 0) {
        return status;
    }

    const cadre_step_update_list_t list = cadre_step_update_list_view(&message->updates);
    double rows = 0;
    size_t parts = 0;
    for (size_t i = 0; i < list.count; i++) {
        const cadre_held_update_t *held = cadre_shard_steps_find(self->steps, list.items[i].update);
        rows += (double)list.items[i].rows;
        parts += held ? held->part_count : 0;
    }

    cadre_auto(cadre_free) share_t *shares = cadre_calloc(parts, sizeof(*shares));
    size_t count = 0;
    size_t applied = 0;
    for (size_t i = 0; i < list.count; i++) {
        const cadre_held_update_t *held = cadre_shard_steps_find(self->steps, list.items[i].update);
        if (held) { /* a closure may have pushed nothing to this shard */
            const float weight = (float)((double)list.items[i].rows / rows);
            count += share(target, held, i, weight, shares + count);
            applied++;
        }
    }
    qsort(shares, count, sizeof(*shares), compare_shares);
    apply_shares(self, target->parts, shares, count);

    const size_t dropped = cadre_shard_steps_end(self->steps, message->step) - applied;
    cadre_ps_counters_note_step(target->counters, message->step);
    for (size_t i = 0; i < dropped; i++) {
        cadre_ps_counters_note(target->counters, CADRE_PS_COUNTER_refused);
    }
    return 0;
}

size_t
cadre_shard_updates_held_count(const cadre_shard_updates_t *self)
{
    return cadre_shard_steps_count(self->steps);
}

uint64_t
cadre_shard_updates_held_bytes(const cadre_shard_updates_t *self)
{
    return cadre_shard_steps_size_bytes(self->steps);
}

/* --- assign --- */

/* Refuses an ASSIGN that divides by 0; its numbers stand in the chunks from `first` on. */
static int
check_divisors(const cadre_shard_part_t *part, const cadre_message_t *message, size_t first)
{
    const bool divides = message->assign.mode == CADRE_ASSIGN_DIV;
    const cadre_dtype_t dtype = part->spec.dtype;
    for (size_t k = first; divides && k < message->chunk_count; k++) {
        const size_t count = cadre_chunk_size_bytes(message->chunks[k]) / cadre_dtype_size(dtype);
        if (cadre_dtype_has_zero(dtype, cadre_chunk_data(message->chunks[k]), count)) {
            return cadre_shard_part_fail(part, cadre_fail(CADRE_EINVALID, "values divided by 0"));
        }
    }
    return 0;
}

/* Checks an ASSIGN: of a whole partition, or of rows, whose list `rows` becomes. */
static int
check_assign(const cadre_shard_target_t *target, const cadre_message_t *message,
             cadre_row_list_t *rows)
{
    const cadre_assign_message_t *assign = &message->assign;
    const cadre_shard_part_t *part = NULL;
    int status = cadre_shard_parts_find(target->parts, assign->variable, assign->partition, &part);
    if (status < 0) {
        return status;
    }
    if (part->table && assign->rows.count == 0) {
        return cadre_shard_part_fail(
            part, cadre_fail(CADRE_EINVALID, "rows of a table are assigned by keys"));
    }
    status = assign->rows.count > 0
                 ? cadre_shard_rows_check(target->parts, message, rows)
                 : cadre_partition_check(part->partition, message->chunks, message->chunk_count);
    if (status < 0) {
        return assign->rows.count > 0 ? status : cadre_shard_part_fail(part, status);
    }
    return check_divisors(part, message, assign->rows.count > 0 ? rows->id_chunks : 0);
}

/* Assigns rows to their part, or to an image of it. */
static void
assign_rows_to(const cadre_shard_image_t *to, cadre_assign_mode_t mode,
               const cadre_part_rows_t *rows, cadre_chunk_t *const *chunks)
{
    if (to->table) {
        cadre_shard_tables_assign(to->table, mode, rows, chunks);
    } else if (to->partition) {
        cadre_partition_assign_rows(to->partition, mode, rows, chunks);
    }
}

/* Assigns rows to their parts, or also to the images of these in the open cut (`straggles`).
 * Returns whether one of them has an image. */
static bool
assign_rows(const cadre_shard_target_t *target, const cadre_message_t *message,
            cadre_row_list_t *list, bool straggles)
{
    const cadre_assign_mode_t mode = (cadre_assign_mode_t)message->assign.mode;
    cadre_chunk_t *const *chunks = message->chunks + list->id_chunks;
    cadre_part_rows_t rows;
    bool has_image = false;
    while (cadre_row_list_next(list, &rows)) {
        const cadre_shard_part_t *part = NULL;
        (void)cadre_shard_parts_find(target->parts, rows.variable, rows.partition, &part);
        const cadre_shard_image_t image = image_of(target, part, straggles);
        assign_rows_to(&(cadre_shard_image_t){part->partition, part->table}, mode, &rows, chunks);
        assign_rows_to(&image, mode, &rows, chunks);
        cadre_shard_parts_note(target->parts, part);
        has_image |= image.partition || image.table;
        chunks += cadre_shard_rows_chunk_count(part, &rows);
    }
    return has_image;
}

/* Assigns a whole partition, or also its image in the open cut (`straggles`). Returns whether it
 * has an image. */
static bool
assign_whole(const cadre_shard_target_t *target, const cadre_message_t *message, bool straggles)
{
    const cadre_assign_message_t *assign = &message->assign;
    const cadre_assign_mode_t mode = (cadre_assign_mode_t)assign->mode;
    const cadre_shard_part_t *part = NULL;
    (void)cadre_shard_parts_find(target->parts, assign->variable, assign->partition, &part);
    const cadre_shard_image_t image = image_of(target, part, straggles);
    cadre_partition_assign(part->partition, mode, message->chunks);
    if (image.partition) {
        cadre_partition_assign(image.partition, mode, message->chunks);
    }
    return image.partition != NULL;
}

/* Carries out an ASSIGN. Checks it even if its sequence is known: one that was refused is refused
 * again, also after a later one was applied. A replay may repeat both before the caller of the
 * first has its answer. */
int
cadre_shard_updates_assign(cadre_shard_updates_t *self, const cadre_shard_target_t *target,
                           const cadre_message_t *message)
{
    const cadre_assign_message_t *assign = &message->assign;
    const bool is_again = assign->sequence <= self->assigned;
    cadre_row_list_t rows;
    int status = check_assign(target, message, &rows);
    if (status == CADRE_ENOTFOUND) {
        return is_again ? 0 : status; /* 0: dropped since */
    }
    if (status < 0) {
        /* So that the answer to a PROBE does not call this assignment applied. */
        self->refused = assign->sequence > self->refused ? assign->sequence : self->refused;
        return status;
    }
    if (is_again) {
        return 0;
    }

    /* An assignment that was made after a cut opens it first, in case SNAPSHOT has not come yet.
     * One that was made before the open cut changes the image too. */
    cadre_shard_cut_open(target->cut, assign->checkpoint, assign->cut, target->parts,
                         target->counters);
    const bool straggles = cadre_shard_cut_is_before(target->cut, assign->checkpoint);
    const bool has_image = assign->rows.count > 0 ? assign_rows(target, message, &rows, straggles)
                                                  : assign_whole(target, message, straggles);
    cadre_ps_counters_note(target->counters, CADRE_PS_COUNTER_assigned);
    if (has_image) {
        cadre_shard_cut_note_assign(target->cut);
    }
    self->assigned = assign->sequence;
    return 0;
}
