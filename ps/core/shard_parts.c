#include "ps/core/shard_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/base/u64_map.h"
#include "common/wire/record_list.h"

struct cadre_shard_parts {
    cadre_shard_parts_options_t options;
    cadre_chunk_pool_t *pool;
    cadre_u64_map_t parts;     /* by cadre_partition_key */
    cadre_u64_map_t variables; /* the first part of each variable; others follow by `next` */
    uint64_t dropped;          /* the highest id that a DROP named: no variable up to it is made any
                            more */
    uint64_t size_bytes;       /* values and slots of all parts */
    cadre_table_figures_t figures; /* sums of those of all tables */
    uint64_t
        table_update_bytes;    /* numbers of an update of CADRE_TABLE_KEYS_MAX rows of each table */
    cadre_named_part_t *named; /* the parts that the last list named */
    size_t named_capacity;
    uint64_t named_last; /* how many lists were looked up; see cadre_shard_part_t.named */
};

cadre_shard_parts_t *
cadre_shard_parts_new(const cadre_shard_parts_options_t *options)
{
    cadre_shard_parts_t *self = cadre_calloc(1, sizeof(*self));
    self->options = *options;
    self->pool = cadre_chunk_pool_new(CADRE_CHUNK_POOL_SIZE_MAX);
    cadre_chunk_pool_set_huge_source(self->pool, &options->huge_source);
    return self;
}

const cadre_lanes_t *
cadre_shard_parts_lanes(const cadre_shard_parts_t *self)
{
    return &self->options.lanes;
}

void
cadre_shard_parts_set_size_max(cadre_shard_parts_t *self, uint64_t size_bytes_max)
{
    self->options.size_bytes_max = size_bytes_max;
}

static void
destroy_part(cadre_shard_part_t *part)
{
    cadre_partition_close(&part->partition);
    cadre_table_close(&part->table);
    free(part);
}

/* Drops all parts, and forgets which variables were dropped. */
void
cadre_shard_parts_clear(cadre_shard_parts_t *self)
{
    cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        destroy_part(part);
    }
    cadre_u64_map_fini(&self->parts);
    cadre_u64_map_fini(&self->variables);
    self->size_bytes = 0;
    self->figures = (cadre_table_figures_t){.rows = 0};
    self->table_update_bytes = 0;
    self->dropped = 0;
}

void
cadre_shard_parts_destroy(cadre_shard_parts_t **self_p)
{
    cadre_shard_parts_t *self = *self_p;
    if (!self) {
        return;
    }
    *self_p = NULL;
    cadre_shard_parts_clear(self);
    free(self->named);
    cadre_chunk_pool_destroy(&self->pool);
    free(self);
}

/* --- making a part --- */

/* Writes the initial numbers of values and slots. A partition of some GiB takes as many seconds, so
 * `on_step` is called after each chunk. */
static void
draw(const cadre_shard_parts_t *self, cadre_partition_t *partition)
{
    const size_t chunks = cadre_partition_layout(partition)->count;
    const cadre_partition_spec_t *spec = cadre_partition_spec(partition);
    const int slots = (int)cadre_optimizer_slot_count(&spec->optimizer);
    for (int slot = -1; slot < slots; slot++) {
        for (size_t k = 0; k < chunks; k++) {
            cadre_partition_initialise(partition, slot, k);
            if (self->options.on_step) {
                self->options.on_step(self->options.step_context);
            }
        }
    }
}

uint64_t
cadre_shard_parts_room(const cadre_shard_parts_t *self)
{
    const uint64_t max = self->options.size_bytes_max;
    return max - cadre_min_u64(max, self->size_bytes);
}

int
cadre_shard_parts_check_growth(const cadre_shard_parts_t *self, uint64_t size_bytes)
{
    if (size_bytes > cadre_shard_parts_room(self)) {
        return cadre_fail(CADRE_EFULL,
                          "%" PRIu64 " bytes more do not fit the shard, which holds %" PRIu64
                          " of at most %" PRIu64,
                          size_bytes, self->size_bytes, self->options.size_bytes_max);
    }
    return 0;
}

/* Computes the bytes that a partition will take, and fails with CADRE_EFULL when the shard has no
 * room for them. */
static int
measure(const cadre_shard_parts_t *self, const cadre_partition_spec_t *spec, uint64_t *size_bytes)
{
    int status = cadre_partition_spec_measure(spec, size_bytes);
    if (status < 0) {
        return status;
    }
    return cadre_shard_parts_check_growth(self, *size_bytes);
}

/* Makes a partition, blank or with its initial numbers. */
static int
make_partition(const cadre_shard_parts_t *self, const cadre_partition_spec_t *spec, bool is_blank,
               cadre_shard_part_t *part)
{
    int status = measure(self, spec, &part->size_bytes);
    if (status < 0) {
        return status;
    }
    status = cadre_partition_open_blank(&part->partition, spec, self->pool);
    if (status < 0) {
        return status;
    }
    if (!is_blank) {
        draw(self, part->partition);
    }
    part->spec = *cadre_partition_spec(part->partition);
    return 0;
}

/* Makes a table without rows. */
static int
make_table(const cadre_shard_parts_t *self, const cadre_partition_spec_t *spec,
           cadre_shard_part_t *part)
{
    const cadre_table_spec_t table = cadre_partition_spec_table(spec);
    int status = cadre_table_open(&part->table, &table, self->pool);
    if (status < 0) {
        return status;
    }
    part->spec = *spec;
    part->size_bytes = cadre_table_figures(part->table).size_bytes;
    return cadre_shard_parts_check_growth(self, part->size_bytes);
}

/* Makes a part, which counts in the memory of the shard from now on and is served once it is
 * added. */
int
cadre_shard_parts_make(cadre_shard_parts_t *self, const char *name,
                       const cadre_partition_spec_t *spec, bool is_blank, cadre_shard_part_t **out)
{
    /* Ids ascend in the order of creation: a CREATE up to the highest id that was dropped comes
     * late. */
    if (spec->variable <= self->dropped) {
        return cadre_fail(CADRE_EFENCED, "%s, partition %" PRIu64 ": was dropped", name,
                          spec->partition);
    }

    cadre_shard_part_t *part = cadre_calloc(1, sizeof(*part));
    int status = cadre_partition_spec_is_table(spec) ? make_table(self, spec, part)
                                                     : make_partition(self, spec, is_blank, part);
    if (status < 0) {
        destroy_part(part);
        return cadre_fail_within(status, "%s, partition %" PRIu64, name, spec->partition);
    }

    snprintf(part->name, sizeof(part->name), "%s", name);
    self->size_bytes += part->size_bytes;
    *out = part;
    return 0;
}

/* Gives what is served of the part the schedule of its spec. */
static void
reschedule(const cadre_shard_part_t *part)
{
    if (part->table) {
        cadre_table_reschedule(part->table, &part->spec.optimizer.schedule);
    } else if (part->partition) {
        cadre_partition_reschedule(part->partition, &part->spec.optimizer.schedule);
    }
}

/* --- figures of tables --- */

/* Returns the bytes of the numbers of the largest update of a table. */
static uint64_t
table_update_size(const cadre_shard_part_t *part)
{
    return CADRE_TABLE_KEYS_MAX * (uint64_t)part->spec.table.dim * sizeof(float);
}

/* Adds to the sums what a table's figures, and its bytes, have become since they were noted; a
 * table that was loaded begins with what it counted before. */
static void
add_figures(cadre_shard_parts_t *self, cadre_shard_part_t *part)
{
    const cadre_table_figures_t now = cadre_table_figures(part->table);
    const cadre_table_figures_t *before = &part->figures;
    cadre_table_figures_t *sum = &self->figures;
    sum->rows += now.rows - before->rows;
    sum->size_bytes += now.size_bytes - before->size_bytes;
    sum->version += now.version - before->version;
    sum->steps += now.steps - before->steps;
    sum->created += now.created - before->created;
    sum->evicted += now.evicted - before->evicted;
    sum->expired += now.expired - before->expired;
    sum->unadmitted += now.unadmitted - before->unadmitted;
    self->size_bytes += now.size_bytes - part->size_bytes;
    part->size_bytes = now.size_bytes;
    part->figures = now;
}

/* Takes a table that is dropped out of what is counted of the present. */
static void
forget_table(cadre_shard_parts_t *self, const cadre_shard_part_t *part)
{
    self->table_update_bytes -= table_update_size(part);
    self->figures.rows -= part->figures.rows;
    self->figures.size_bytes -= part->figures.size_bytes;
}

/* Adds a part that was made, in front of the other parts of its variable. */
void
cadre_shard_parts_add(cadre_shard_parts_t *self, cadre_shard_part_t **part_p, uint64_t after)
{
    cadre_shard_part_t *part = *part_p;
    *part_p = NULL;
    cadre_assert(part->partition || part->table);
    /* A CREATE that came while the part was loaded may have made its schedule longer. */
    reschedule(part);
    cadre_u64_map_put(&self->parts, cadre_shard_part_key(part), part);
    part->next = cadre_u64_map_put(&self->variables, part->spec.variable, part);
    part->after = after;
    if (part->table) {
        cadre_table_begin(part->table, after);
        self->table_update_bytes += table_update_size(part);
        add_figures(self, part);
    }
}

void
cadre_shard_parts_give_up(cadre_shard_parts_t *self, cadre_shard_part_t **part_p)
{
    self->size_bytes -= (*part_p)->size_bytes;
    destroy_part(*part_p);
    *part_p = NULL;
}

int
cadre_shard_parts_add_loaded(cadre_shard_parts_t *self, cadre_shard_part_t **part_p, uint64_t after)
{
    const cadre_shard_part_t *part = *part_p;
    const uint64_t size_bytes = part->table ? cadre_table_figures(part->table).size_bytes : 0;
    const uint64_t more = size_bytes - cadre_min_u64(size_bytes, part->size_bytes);
    int status = cadre_shard_parts_check_growth(self, more);
    if (status < 0) {
        status = cadre_shard_part_fail(part, status);
        cadre_shard_parts_give_up(self, part_p);
        return status;
    }
    cadre_shard_parts_add(self, part_p, after);
    return 0;
}

/* --- one part --- */

uint64_t
cadre_shard_part_key(const cadre_shard_part_t *self)
{
    return cadre_partition_key(self->spec.variable, self->spec.partition);
}

void
cadre_shard_part_lend(cadre_shard_part_t *self, cadre_partition_t **partition,
                      cadre_table_t **table)
{
    *partition = self->partition;
    *table = self->table;
    self->partition = NULL;
    self->table = NULL;
}

void
cadre_shard_part_return(cadre_shard_part_t *self, cadre_partition_t **partition_p,
                        cadre_table_t **table_p, cadre_table_base_t base)
{
    self->partition = *partition_p;
    self->table = *table_p;
    self->base = base;
    *partition_p = NULL;
    *table_p = NULL;
}

uint64_t
cadre_shard_part_version(const cadre_shard_part_t *self)
{
    return self->table ? cadre_table_version(self->table)
                       : cadre_partition_version(self->partition);
}

/* Fails with CADRE_EEXISTS unless the part has this name and spec, but for a schedule of which one
 * goes on where the other ends. Takes over the longer one; a part that is being loaded gets it when
 * its partition comes back (cadre_shard_parts_add). */
int
cadre_shard_part_create_again(cadre_shard_part_t *self, const char *name,
                              const cadre_partition_spec_t *spec)
{
    if (strcmp(self->name, name) != 0 || !cadre_partition_spec_take_longer(&self->spec, spec)) {
        return cadre_fail(CADRE_EEXISTS, "%s, partition %" PRIu64 ": exists and is another one",
                          self->name, self->spec.partition);
    }

    reschedule(self);
    return 0;
}

bool
cadre_shard_part_is_in(const cadre_shard_part_t *self, uint64_t checkpoint)
{
    return !self->retired || checkpoint <= self->last_checkpoint;
}

int
cadre_shard_part_fail(const cadre_shard_part_t *self, int status)
{
    return cadre_fail_within(status, "%s, partition %" PRIu64, self->name, self->spec.partition);
}

/* --- finding --- */

/* Returns a part that is served, NULL when there is none. Numbers beyond the limits would make the
 * key of another part. */
static cadre_shard_part_t *
get(const cadre_shard_parts_t *self, uint64_t variable, uint64_t partition)
{
    if (variable > UINT32_MAX || partition >= CADRE_PARTITIONS_PER_VARIABLE_MAX) {
        return NULL;
    }
    return cadre_u64_map_get(&self->parts, cadre_partition_key(variable, partition));
}

static int
fail_unknown(uint64_t variable, uint64_t partition)
{
    return cadre_fail(CADRE_ENOTFOUND,
                      "this shard has no partition %" PRIu64 " of variable %" PRIu64, partition,
                      variable);
}

/* Takes the CREATE of a part that is served. */
int
cadre_shard_parts_create_again(cadre_shard_parts_t *self, const char *name,
                               const cadre_partition_spec_t *spec)
{
    cadre_shard_part_t *part = get(self, spec->variable, spec->partition);
    return part ? cadre_shard_part_create_again(part, name, spec)
                : fail_unknown(spec->variable, spec->partition);
}

/* Finds a part that is served. */
int
cadre_shard_parts_find(const cadre_shard_parts_t *self, uint64_t variable, uint64_t partition,
                       const cadre_shard_part_t **out)
{
    const cadre_shard_part_t *part = get(self, variable, partition);
    if (!part) {
        return fail_unknown(variable, partition);
    }
    *out = part;
    return 0;
}

/* Makes room for so many named parts, and begins another list of them. */
static void
begin_named(cadre_shard_parts_t *self, size_t count)
{
    if (count > self->named_capacity) {
        self->named_capacity = count;
        self->named = cadre_realloc(self->named, count, sizeof(*self->named));
    }
    self->named_last++;
}

/* Finds a part that a list names, and writes it to `named`. A part that stands in the list twice is
 * found by its field `named`, the number of the list that named it last. */
static int
name_part(const cadre_shard_parts_t *self, uint64_t variable, uint64_t partition,
          cadre_named_part_t *named)
{
    cadre_shard_part_t *part = get(self, variable, partition);
    if (!part) {
        return fail_unknown(variable, partition);
    }
    named->part = part;
    named->is_again = part->named == self->named_last;
    part->named = self->named_last;
    return 0;
}

static int
fail_list(const cadre_u64s_t *list)
{
    return cadre_fail(CADRE_EMALFORMED, "a list of partitions has %zu numbers", list->count);
}

/* Finds the parts that a PULL or PUSH names, in its order. */
int
cadre_shard_parts_find_named(cadre_shard_parts_t *self, const cadre_u64s_t *list,
                             cadre_named_parts_t *out)
{
    const cadre_part_list_t parts = cadre_part_list_view(list);
    /* The second is true of a list that is no whole number of records. */
    if (parts.count == 0 || cadre_part_list(parts.items, parts.count).count != list->count) {
        return fail_list(list);
    }

    begin_named(self, parts.count);
    for (size_t i = 0; i < parts.count; i++) {
        const cadre_part_t *asked = &parts.items[i];
        self->named[i] = (cadre_named_part_t){.number = asked->number};
        int status = name_part(self, asked->variable, asked->partition, &self->named[i]);
        if (status < 0) {
            return status;
        }
    }
    *out = (cadre_named_parts_t){self->named, parts.count};
    return 0;
}

int
cadre_shard_parts_find_pushed(cadre_shard_parts_t *self, const cadre_push_message_t *push,
                              cadre_named_parts_t *out)
{
    const cadre_part_list_t parts = cadre_part_list_view(&push->partitions);
    const cadre_pushed_rows_list_t rows = cadre_pushed_rows_list_view(&push->rows);
    if (cadre_part_list(parts.items, parts.count).count != push->partitions.count ||
        parts.count + rows.count == 0) {
        return fail_list(&push->partitions);
    }
    if (cadre_pushed_rows_list(rows.items, rows.count).count != push->rows.count) {
        return fail_list(&push->rows);
    }

    begin_named(self, parts.count + rows.count);
    int status = 0;
    for (size_t i = 0; i < parts.count && status == 0; i++) {
        const cadre_part_t *asked = &parts.items[i];
        self->named[i] = (cadre_named_part_t){.number = asked->number};
        status = name_part(self, asked->variable, asked->partition, &self->named[i]);
    }
    for (size_t i = 0; i < rows.count && status == 0; i++) {
        const cadre_pushed_rows_t *asked = &rows.items[i];
        cadre_named_part_t *named = &self->named[parts.count + i];
        *named = (cadre_named_part_t){.number = asked->version, .rows = asked->count};
        if (asked->count == 0) {
            return cadre_fail(CADRE_EMALFORMED, "a list of rows has a partition without rows");
        }
        status = name_part(self, asked->variable, asked->partition, named);
    }
    if (status < 0) {
        return status;
    }
    *out = (cadre_named_parts_t){self->named, parts.count + rows.count};
    return 0;
}

const cadre_shard_part_t *
cadre_shard_parts_of(const cadre_shard_parts_t *self, uint64_t variable)
{
    return cadre_u64_map_get(&self->variables, variable);
}

const cadre_shard_part_t *
cadre_shard_parts_next(const cadre_shard_parts_t *self, size_t *cursor)
{
    return cadre_u64_map_next(&self->parts, cursor);
}

size_t
cadre_shard_parts_count(const cadre_shard_parts_t *self)
{
    return self->parts.count;
}

uint64_t
cadre_shard_parts_size_bytes(const cadre_shard_parts_t *self)
{
    return self->size_bytes;
}

uint64_t
cadre_shard_parts_update_size(const cadre_shard_parts_t *self)
{
    return cadre_min_u64(self->size_bytes + self->table_update_bytes, self->options.size_bytes_max);
}

cadre_table_figures_t
cadre_shard_parts_figures(const cadre_shard_parts_t *self)
{
    return self->figures;
}

cadre_tables_told_t
cadre_shard_parts_told(const cadre_shard_parts_t *self)
{
    cadre_tables_told_t told = {.count = 0};
    const cadre_shard_part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_shard_parts_next(self, &cursor));) {
        if (cadre_partition_spec_is_table(&part->spec) && !part->retired) {
            cadre_tables_told_add(&told, part->spec.variable, &part->figures);
        }
    }
    return told;
}

void
cadre_shard_parts_note(cadre_shard_parts_t *self, const cadre_shard_part_t *part)
{
    if (part->table) {
        add_figures(self, get(self, part->spec.variable, part->spec.partition));
    }
}

/* --- dropping --- */

void
cadre_shard_parts_retire(cadre_shard_parts_t *self, uint64_t variable, uint64_t checkpoint)
{
    cadre_shard_part_t *part = cadre_u64_map_get(&self->variables, variable);
    for (; part; part = part->next) {
        part->retired = true;
        part->last_checkpoint = checkpoint;
    }
}

/* Drops all parts of a variable; a CREATE of it that comes late is refused from now on. */
void
cadre_shard_parts_drop(cadre_shard_parts_t *self, uint64_t variable)
{
    cadre_shard_part_t *next = cadre_u64_map_take(&self->variables, variable);
    while (next) {
        cadre_shard_part_t *part = next;
        next = part->next;
        cadre_u64_map_take(&self->parts, cadre_shard_part_key(part));
        self->size_bytes -= part->size_bytes;
        if (part->table) {
            forget_table(self, part);
        }
        destroy_part(part);
    }
    self->dropped = variable > self->dropped ? variable : self->dropped;
}
