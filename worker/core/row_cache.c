#include "worker/core/row_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/u64_map.h"
#include "common/spec/table_spec.h"

enum {
    WAYS = 8,             /* rows of a set */
    AHEAD = 6,            /* keys whose sets the CPU is asked for before they are needed */
    TRIAL_ASKED = 4096,   /* a trial ends with so many rows that the shard was asked about, */
    TRIAL_TURNS = 4,      /* or when so many times the rows that there is room for were pulled, */
    UNCHANGED_SHARE = 16, /* and is passed when one of so many was unchanged */
    PAUSE_FACTOR = 31,
};

/* Hashes of keys by which shards are chosen are mixed otherwise: all keys of a shard would share
 * the upper bits. */
#define SET_SALT UINT64_C(0xA0761D6478BD642F)

typedef struct {
    uint64_t keys[WAYS];
    uint32_t versions[WAYS]; /* above that of the source */
    uint16_t seen[WAYS];     /* parts of the hashes of keys that came once; 0: none */
    uint8_t used;            /* bits: a row is there */
    uint8_t recent;          /* bits: it was wanted since the hand went by (second chance) */
    uint8_t hand;            /* the row that is looked at next when one has to go */
    uint8_t seen_next;       /* the place of `seen` that is written next */
    uint8_t rest[12];        /* two lines of memory */
} set_t;

/* What is kept of one partition of a table. */
typedef struct {
    cadre_row_source_t source;
    uint64_t version; /* those of the rows are from this one on */
    size_t size_bytes_max;
    uint32_t set_count; /* 0: arrays are not made yet, or have no room for a set */
    set_t *sets;
    unsigned char *values; /* [set_count, WAYS, row_size_bytes] */

    uint64_t pulled; /* rows, asked and unchanged in this trial */
    uint64_t asked;
    uint64_t unchanged;
    uint64_t pause; /* rows that are still to be pulled before the next trial */
} part_t;

struct cadre_row_cache {
    size_t size_bytes_max;
    cadre_u64_map_t parts; /* of part_t, by variable and partition */
    size_t part_count;
    uint64_t pause_factor;
};

static uint64_t
key_of(uint32_t variable, uint32_t partition)
{
    return (uint64_t)variable << 32 | partition;
}

/* Frees the rows of a part. */
static void
empty(part_t *part)
{
    free(part->sets);
    free(part->values);
    part->sets = NULL;
    part->values = NULL;
    part->set_count = 0;
}

static void
drop(part_t *part)
{
    empty(part);
    free(part);
}

cadre_row_cache_t *
cadre_row_cache_new(size_t size_bytes_max, bool is_patient)
{
    cadre_row_cache_t *self = cadre_calloc(1, sizeof(*self));
    self->size_bytes_max = size_bytes_max;
    self->pause_factor = is_patient ? 0 : PAUSE_FACTOR;
    return self;
}

void
cadre_row_cache_clear(cadre_row_cache_t *self)
{
    part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        drop(part);
    }
    cadre_u64_map_fini(&self->parts);
    self->part_count = 0;
}

void
cadre_row_cache_destroy(cadre_row_cache_t **self_p)
{
    cadre_row_cache_t *self = *self_p;
    if (!self) {
        return;
    }
    cadre_row_cache_clear(self);
    cadre_free(self_p);
}

void
cadre_row_cache_forget(cadre_row_cache_t *self, uint32_t variable, uint32_t partitions)
{
    for (uint32_t i = 0; i < partitions; i++) {
        part_t *part = cadre_u64_map_take(&self->parts, key_of(variable, i));
        if (part) {
            drop(part);
            self->part_count--;
        }
    }
}

/* --- memory --- */

/* Gives each part its share of the memory; one that has more loses its rows. */
static void
share_out(cadre_row_cache_t *self)
{
    const size_t share = self->size_bytes_max / self->part_count;
    part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        if (part->size_bytes_max > share) {
            empty(part);
        }
        part->size_bytes_max = share;
    }
}

/* Makes the arrays of a part, of which the system gives memory for what is used. */
static void
make_arrays(part_t *part)
{
    const size_t row_size = part->source.row_size_bytes;
    const size_t set_size = sizeof(set_t) + WAYS * row_size;
    part->set_count = (uint32_t)cadre_min_u64(part->size_bytes_max / set_size, UINT32_MAX);
    if (part->set_count > 0) {
        part->sets = cadre_calloc(part->set_count, sizeof(*part->sets));
        part->values = cadre_calloc(part->set_count, WAYS * row_size);
    }
}

/* Returns what is kept of a source, made where it is wanted and there is none; NULL for a cache
 * that keeps nothing. Rows of another generation or size are dropped. */
static part_t *
part_of(cadre_row_cache_t *self, const cadre_row_source_t *source)
{
    if (self->size_bytes_max == 0) {
        return NULL;
    }
    const uint64_t key = key_of(source->variable, source->partition);
    part_t *part = cadre_u64_map_get(&self->parts, key);
    if (!part) {
        part = cadre_calloc(1, sizeof(*part));
        part->source = *source;
        cadre_u64_map_put(&self->parts, key, part);
        self->part_count++;
        share_out(self);
    }
    if (part->source.generation != source->generation ||
        part->source.row_size_bytes != source->row_size_bytes) {
        empty(part);
        part->source = *source;
    }
    return part;
}

size_t
cadre_row_cache_size_bytes(const cadre_row_cache_t *self)
{
    size_t size_bytes = 0;
    const part_t *part = NULL;
    for (size_t cursor = 0; (part = cadre_u64_map_next(&self->parts, &cursor));) {
        size_bytes += part->set_count * (sizeof(set_t) + WAYS * part->source.row_size_bytes);
    }
    return size_bytes;
}

/* --- trials --- */

/* Ends a trial of a part, with a pause where too few rows were unchanged. */
static void
end_trial(const cadre_row_cache_t *self, part_t *part, bool is_passed)
{
    part->pause = is_passed ? 0 : self->pause_factor * part->pulled;
    part->pulled = 0;
    part->asked = 0;
    part->unchanged = 0;
}

/* Counts rows that are pulled; returns whether the part is on pause. */
static bool
count_pulled(const cadre_row_cache_t *self, part_t *part, size_t count)
{
    if (part->pause > 0) {
        part->pause -= cadre_min_u64(part->pause, count);
        return true;
    }
    if (part->pulled > (uint64_t)TRIAL_TURNS * WAYS * part->set_count && part->set_count > 0) {
        end_trial(self, part, part->unchanged * UNCHANGED_SHARE >= part->pulled);
    }
    part->pulled += count;
    return part->pause > 0;
}

void
cadre_row_cache_judge(cadre_row_cache_t *self, const cadre_row_source_t *source, size_t asked,
                      size_t unchanged)
{
    part_t *part = part_of(self, source);
    if (!part || part->pause > 0) {
        return;
    }
    part->asked += asked;
    part->unchanged += unchanged;
    if (part->asked >= TRIAL_ASKED) {
        end_trial(self, part, part->unchanged * UNCHANGED_SHARE >= part->asked);
    }
}

/* --- rows --- */

static uint64_t
hash_of(uint64_t key)
{
    return cadre_table_mix(key ^ SET_SALT);
}

static uint32_t
set_number(const part_t *part, uint64_t hash)
{
    return (uint32_t)((hash >> 32) * part->set_count >> 32);
}

/* Returns the place of a key in its set; WAYS: it has none. */
static unsigned
way_of(const set_t *set, uint64_t key)
{
    unsigned found = 0;
    for (unsigned way = 0; way < WAYS; way++) {
        found |= (unsigned)(set->keys[way] == key) << way;
    }
    found &= set->used;
    return found ? (unsigned)__builtin_ctz(found) : WAYS;
}

/* Asks the CPU for the set of a key that comes later. */
static void
prefetch(const part_t *part, size_t count, const uint64_t *keys, size_t i)
{
    if (i + AHEAD < count) {
        const char *set = (const char *)&part->sets[set_number(part, hash_of(keys[i + AHEAD]))];
        __builtin_prefetch(set);
        __builtin_prefetch(set + sizeof(set_t) / 2);
    }
}

static unsigned char *
values_at(const part_t *part, uint32_t set, unsigned way)
{
    return part->values + ((size_t)set * WAYS + way) * part->source.row_size_bytes;
}

size_t
cadre_row_cache_find(cadre_row_cache_t *self, const cadre_row_source_t *source, size_t count,
                     const uint64_t *keys, cadre_held_row_t *rows)
{
    part_t *part = part_of(self, source);
    if (!part || count_pulled(self, part, count) || part->set_count == 0) {
        return 0;
    }
    size_t held = 0;
    for (size_t i = 0; i < count; i++) {
        prefetch(part, count, keys, i);
        const uint32_t at = set_number(part, hash_of(keys[i]));
        set_t *set = &part->sets[at];
        const unsigned way = way_of(set, keys[i]);
        rows[i] = (cadre_held_row_t){.values = NULL};
        if (way < WAYS) {
            set->recent |= (uint8_t)(1U << way);
            rows[i] = (cadre_held_row_t){.values = values_at(part, at, way),
                                         .version = part->version + set->versions[way]};
            held++;
        }
    }
    return held;
}

/* Returns whether a key came a little while ago; if not, remembers that it came. */
static bool
was_seen(set_t *set, uint64_t hash)
{
    const uint16_t print = (uint16_t)(hash | 1);
    for (unsigned i = 0; i < WAYS; i++) {
        if (set->seen[i] == print) {
            set->seen[i] = 0;
            return true;
        }
    }
    set->seen[set->seen_next] = print;
    set->seen_next = (uint8_t)((set->seen_next + 1) % WAYS);
    return false;
}

/* Returns a place for another row: a free one, or the first from the hand on whose row was not
 * wanted since the hand went by. */
static unsigned
make_place(set_t *set)
{
    if (set->used != UINT8_MAX) {
        return (unsigned)__builtin_ctz(~(unsigned)set->used);
    }
    while (set->recent >> set->hand & 1) {
        set->recent &= (uint8_t) ~(1U << set->hand);
        set->hand = (uint8_t)((set->hand + 1) % WAYS);
    }
    const unsigned way = set->hand;
    set->hand = (uint8_t)((set->hand + 1) % WAYS);
    return way;
}

/* Keeps one row, if it is to be kept. */
static void
put_row(part_t *part, uint32_t version, uint64_t key, const void *values)
{
    const uint64_t hash = hash_of(key);
    const uint32_t at = set_number(part, hash);
    set_t *set = &part->sets[at];
    unsigned way = way_of(set, key);
    if (way < WAYS ? set->versions[way] >= version : !was_seen(set, hash)) {
        return;
    }
    if (way == WAYS) {
        way = make_place(set);
        set->keys[way] = key;
        set->used |= (uint8_t)(1U << way);
    }
    set->versions[way] = version;
    memcpy(values_at(part, at, way), values, part->source.row_size_bytes);
}

void
cadre_row_cache_put(cadre_row_cache_t *self, const cadre_row_source_t *source, uint64_t version,
                    size_t count, const uint64_t *keys, const void *values)
{
    part_t *part = part_of(self, source);
    if (!part || part->pause > 0) {
        return;
    }
    if (part->set_count > 0 && version - part->version > UINT32_MAX) {
        empty(part); /* or a late answer, of before the first */
    }
    if (part->set_count == 0) {
        make_arrays(part);
        part->version = version;
    }
    if (part->set_count == 0) {
        return;
    }
    const uint32_t number = (uint32_t)(version - part->version);
    for (size_t i = 0; i < count; i++) {
        prefetch(part, count, keys, i);
        put_row(part, number, keys[i], (const unsigned char *)values + i * source->row_size_bytes);
    }
}
