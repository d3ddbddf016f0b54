#include "tests/sim/sim_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "tests/sim/sim_swarm.h"

enum { CANDIDATES = 4096, SPECIAL_KEYS = 8 };

/* --- keys --- */

/* The shards, of every number of them, that have a key. */
typedef struct {
    bool has[SIM_SHARDS_MAX + 1][SIM_SHARDS_MAX];
} covered_t;

/* Notes which shards have a key; whether one of them had none before. */
static bool
cover(covered_t *self, uint64_t key)
{
    bool is_new = false;
    for (uint32_t count = 1; count <= SIM_SHARDS_MAX; count++) {
        bool *has = &self->has[count][cadre_table_shard(key, count)];
        is_new = is_new || !*has;
        *has = true;
    }
    return is_new;
}

static bool
is_covered(const covered_t *self)
{
    bool whole = true;
    for (uint32_t count = 1; count <= SIM_SHARDS_MAX; count++) {
        for (uint32_t shard = 0; shard < count; shard++) {
            whole = whole && self->has[count][shard];
        }
    }
    return whole;
}

static int
compare_keys(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

void
sim_keys_init(uint64_t keys[SIM_KEYS])
{
    static const uint64_t special[SPECIAL_KEYS] = {
        0, 1, 2, 3, INT64_MAX, (uint64_t)INT64_MAX + 1, 1ULL << 32, UINT64_MAX};
    covered_t covered = {.has = {{false}}};
    size_t count = SPECIAL_KEYS;
    memcpy(keys, special, sizeof(special));
    for (size_t i = 0; i < SPECIAL_KEYS; i++) {
        cover(&covered, keys[i]);
    }
    for (uint64_t i = 1; i < CANDIDATES && count < SIM_KEYS; i++) {
        const uint64_t key = cadre_table_mix(i);
        if (is_covered(&covered) || cover(&covered, key)) {
            keys[count++] = key;
        }
    }
    cadre_assert(count == SIM_KEYS && is_covered(&covered));
    qsort(keys, SIM_KEYS, sizeof(*keys), compare_keys);
}

uint64_t
sim_keys_of_shard(const uint64_t keys[SIM_KEYS], uint32_t shard, uint32_t shard_count)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < SIM_KEYS; i++) {
        bits |= cadre_table_shard(keys[i], shard_count) == shard ? 1ULL << i : 0;
    }
    return bits;
}

uint32_t
sim_table_find(const sim_variable_t *self, uint64_t key)
{
    const uint64_t *found = bsearch(&key, self->keys, SIM_KEYS, sizeof(*self->keys), compare_keys);
    return found ? (uint32_t)(found - self->keys) : SIM_KEYS;
}

uint64_t
sim_table_named(const sim_variable_t *self, uint32_t part, sim_keys_kind_t kind, uint32_t number,
                uint32_t step)
{
    const uint64_t of_part = self->parts[part].keys;
    const uint64_t drawn = cadre_table_mix((uint64_t)number << 24 | (uint64_t)step << 16 |
                                           (uint64_t)kind << 8 | self->id);
    const uint64_t named = of_part & drawn & cadre_table_mix(drawn);
    uint64_t least = of_part;
    if (kind == SIM_KEYS_PUSHED && self->is_counted && (drawn >> 32) % 4 == 0) {
        return 0;
    }
    for (uint64_t skip = drawn % (uint64_t)__builtin_popcountll(of_part); skip > 0; skip--) {
        least &= least - 1;
    }
    return named | (least & -least);
}

/* Writes the keys of a set, ascending; their number. */
static size_t
list_keys(const sim_variable_t *self, uint64_t named, uint64_t *keys)
{
    size_t count = 0;
    for (; named; named &= named - 1) {
        keys[count++] = self->keys[__builtin_ctzll(named)];
    }
    return count;
}

size_t
sim_table_list(const sim_variable_t *self, sim_keys_kind_t kind, uint32_t number, uint32_t step,
               uint64_t keys[SIM_KEYS])
{
    size_t count = 0;
    for (uint32_t i = 0; i < self->part_count; i++) {
        count += list_keys(self, sim_table_named(self, i, kind, number, step), keys + count);
    }
    return count;
}

/* --- admission --- */

uint32_t
sim_table_admit_after(uint64_t seed, uint32_t number, uint32_t life)
{
    char what[48];
    const bool is_anew = life > 0 && sim_swarm_has(seed, "admission changes", 2);
    snprintf(what, sizeof(what), "admission of table %u", number);
    if (is_anew) {
        snprintf(what, sizeof(what), "admission of table %u in life %u", number, life);
    }
    const uint64_t drawn = sim_swarm_draw(seed, what, 0, 7);
    return drawn < 4 ? 0 : (uint32_t)(drawn - 2);
}

/* --- values --- */

void
sim_table_init(sim_variable_t *self, const cadre_variable_t *variable)
{
    cadre_table_spec_t spec = *variable->table;
    spec.initializer = variable->initializer;
    spec.optimizer = variable->optimizer;
    cadre_chunk_pool_t *pool = cadre_chunk_pool_new(0);
    cadre_table_t *table = NULL;
    sim_keys_init(self->keys);
    self->dim = spec.dim;
    self->is_counted = spec.age_max > 0;
    self->firsts = cadre_calloc((size_t)SIM_KEYS * spec.dim, sizeof(*self->firsts));
    cadre_assert(cadre_table_open(&table, &spec, pool) == 0);
    cadre_assert(cadre_table_pull(table, CADRE_F32, SIM_KEYS, self->keys, self->firsts) == 0);
    cadre_table_close(&table);
    cadre_chunk_pool_destroy(&pool);
    for (uint32_t i = 0; i < self->part_count; i++) {
        self->parts[i].keys = sim_keys_of_shard(self->keys, i, self->part_count);
    }
}

cadre_chunk_t *
sim_table_numbers(const sim_variable_t *self, const uint64_t *keys, size_t count, int64_t k,
                  cadre_dtype_t dtype)
{
    cadre_chunk_t *chunk = cadre_chunk_new(count * self->dim * cadre_dtype_size(dtype));
    for (size_t i = 0; i < count * self->dim; i++) {
        const int64_t key = sim_table_find(self, keys[i / self->dim]);
        const int64_t element = key * self->dim + (int64_t)(i % self->dim);
        sim_put(dtype, cadre_chunk_data(chunk), (int64_t)i, k * sim_weight(element));
    }
    return chunk;
}

/* How many numbers of a row are kept. */
static uint32_t
kept_columns(const sim_variable_t *variable)
{
    return variable->dim < SIM_ROW_MAX ? variable->dim : SIM_ROW_MAX;
}

/* k * weight of a number of a row. */
static float
number_of(const sim_variable_t *variable, uint32_t key, uint32_t column, int64_t k)
{
    return (float)(k * sim_weight((int64_t)key * variable->dim + column));
}

sim_rows_t
sim_rows_first(const sim_variable_t *variable)
{
    sim_rows_t self = {.firsts = UINT64_MAX};
    for (uint32_t key = 0; key < SIM_KEYS; key++) {
        memcpy(self.numbers[key], variable->firsts + (size_t)key * variable->dim,
               kept_columns(variable) * sizeof(float));
    }
    return self;
}

void
sim_rows_resume(sim_rows_t *self, uint32_t admit_after)
{
    if (self->admit_after == 0 || admit_after == 0) {
        memset(self->seen, 0, sizeof(self->seen));
    }
    self->admit_after = admit_after;
}

void
sim_row_sum_add(sim_row_sum_t *self, const sim_variable_t *variable, uint64_t keys, int64_t k,
                float weight)
{
    for (uint64_t left = keys; left; left &= left - 1) {
        const uint32_t key = (uint32_t)__builtin_ctzll(left);
        const bool is_first = !(self->keys >> key & 1);
        self->n[key] += (double)weight * (double)k;
        for (uint32_t i = 0; i < kept_columns(variable); i++) {
            const float term = weight * number_of(variable, key, i, k);
            self->numbers[key][i] = is_first ? term : self->numbers[key][i] + term;
        }
    }
    self->keys |= keys;
}

/* Takes the row of a key away: its values are the first ones again. */
static void
forget(sim_rows_t *self, const sim_variable_t *variable, uint32_t key)
{
    self->rows &= ~(1ULL << key);
    self->firsts |= 1ULL << key;
    self->n[key] = 0;
    memcpy(self->numbers[key], variable->firsts + (size_t)key * variable->dim,
           kept_columns(variable) * sizeof(float));
}

/* Has a row go for another; false: none may. An assignment, which names keys, takes what the newest
 * update has changed when nothing else is left. */
static bool
evict(sim_rows_t *self, const sim_variable_t *variable, sim_victim_limits_t *limits)
{
    const sim_definition_t *definition = &variable->definition;
    if (definition->when_full == CADRE_TABLE_REFUSE) {
        return false;
    }
    uint32_t victim = sim_places_victim(&self->places, definition, limits);
    if (victim == SIM_KEYS && limits->named != 0 && !limits->takes_newest) {
        limits->takes_newest = true;
        victim = sim_places_victim(&self->places, definition, limits);
    }
    if (victim == SIM_KEYS) {
        return false;
    }
    sim_places_remove(&self->places, victim);
    forget(self, variable, victim);
    self->evicted++;
    return true;
}

/* Returns by how many rows a part has more than it may. */
static uint64_t
excess(const sim_rows_t *self, const sim_variable_t *variable, uint64_t added)
{
    const uint64_t rows_max = variable->definition.rows_max;
    const uint64_t rows = (uint64_t)__builtin_popcountll(self->rows) + added;
    return rows_max > 0 && rows > rows_max ? rows - rows_max : 0;
}

/* Gives a key a row, for which another may have to go; false: none may. */
static bool
create(sim_rows_t *self, const sim_variable_t *variable, uint32_t key, sim_victim_limits_t *limits)
{
    if (excess(self, variable, 1) > 0 && !evict(self, variable, limits)) {
        return false;
    }
    sim_places_add(&self->places, key);
    sim_places_touch(&self->places, key, self->steps);
    self->rows |= 1ULL << key;
    return true;
}

/* Counts a sighting of the keys that have no row, and gives rows to those that were seen often
 * enough; returns those of all that have one now. */
static uint64_t
admit(sim_rows_t *self, const sim_variable_t *variable, uint64_t keys)
{
    sim_victim_limits_t limits = {.step = self->steps};
    uint64_t admitted = 0;
    uint64_t changed = keys & self->rows;
    for (uint64_t left = changed; left; left &= left - 1) {
        sim_places_touch(&self->places, (uint32_t)__builtin_ctzll(left), self->steps);
    }
    for (uint64_t left = keys & ~self->rows; left; left &= left - 1) {
        const int key = __builtin_ctzll(left);
        self->seen[key] = (uint8_t)(self->seen[key] + (self->seen[key] < UINT8_MAX));
        admitted |= self->seen[key] >= self->admit_after ? left & -left : 0;
    }
    for (uint64_t left = admitted; left; left &= left - 1) {
        changed |=
            create(self, variable, (uint32_t)__builtin_ctzll(left), &limits) ? left & -left : 0;
    }
    self->unadmitted += (uint64_t)__builtin_popcountll(keys & ~changed);
    return changed;
}

/* Adds a sum to rows. */
static void
add(sim_rows_t *self, const sim_row_sum_t *sum, uint64_t keys)
{
    for (uint64_t left = keys; left; left &= left - 1) {
        const uint32_t key = (uint32_t)__builtin_ctzll(left);
        self->n[key] += sum->n[key];
        for (uint32_t i = 0; i < SIM_ROW_MAX; i++) {
            self->numbers[key][i] += sum->numbers[key][i];
        }
    }
}

/* The keys of rows that are too small; all numbers of a row are kept then. */
static uint64_t
small_rows(const sim_rows_t *self, const sim_variable_t *variable)
{
    uint64_t small = 0;
    for (uint64_t left = self->rows; left; left &= left - 1) {
        const int key = __builtin_ctzll(left);
        double sum = 0;
        for (uint32_t i = 0; i < kept_columns(variable); i++) {
            sum += (double)self->numbers[key][i] * (double)self->numbers[key][i];
        }
        small |= sqrt(sum) < variable->definition.norm_min ? left & -left : 0;
    }
    return small;
}

/* Takes away what is too old or too small after an update of `count` keys. */
static void
expire(sim_rows_t *self, const sim_variable_t *variable, uint32_t count)
{
    const sim_definition_t *definition = &variable->definition;
    if (definition->age_max == 0 && definition->norm_min <= 0) {
        return;
    }
    uint64_t gone = sim_places_expire(&self->places, definition, self->steps, count,
                                      small_rows(self, variable));
    self->expired += (uint64_t)__builtin_popcountll(gone);
    for (; gone; gone &= gone - 1) {
        forget(self, variable, (uint32_t)__builtin_ctzll(gone));
    }
}

/* Has the rows go that a part has beyond what it may, as it was on more shards before: of so few
 * keys all in one update. */
static void
shrink(sim_rows_t *self, const sim_variable_t *variable)
{
    sim_victim_limits_t limits = {.step = self->steps};
    while (excess(self, variable, 0) > 0 && evict(self, variable, &limits)) {
    }
}

void
sim_rows_push(sim_rows_t *self, const sim_variable_t *variable, const sim_row_sum_t *sum)
{
    self->steps++;
    add(self, sum, admit(self, variable, sum->keys));
    expire(self, variable, (uint32_t)__builtin_popcountll(sum->keys));
    shrink(self, variable);
}

bool
sim_rows_refuse(const sim_rows_t *self, const sim_variable_t *variable, uint64_t keys)
{
    const sim_definition_t *definition = &variable->definition;
    const uint64_t count = (uint64_t)__builtin_popcountll(keys);
    uint64_t wanted = (uint64_t)__builtin_popcountll(self->rows);
    if (definition->rows_max == 0 || definition->when_full != CADRE_TABLE_REFUSE) {
        return definition->rows_max > 0 && count > definition->rows_max;
    }
    const uint64_t held = wanted;
    for (uint64_t left = keys & ~self->rows; left; left &= left - 1) {
        wanted += self->seen[__builtin_ctzll(left)] + 1U >= self->admit_after;
    }
    return wanted > held && wanted > definition->rows_max;
}

/* Assigns to a row. */
static void
assign_row(sim_rows_t *self, const sim_variable_t *variable, uint32_t key, cadre_assign_mode_t mode,
           int64_t k, sim_victim_limits_t *limits)
{
    const uint64_t bit = 1ULL << key;
    sim_row_sum_t sum = {.keys = 0};
    if (self->rows & bit) {
        sim_places_touch(&self->places, key, self->steps);
    } else if (!create(self, variable, key, limits)) {
        self->unadmitted++;
        return;
    }
    if (mode == CADRE_ASSIGN_SET) {
        self->firsts &= ~bit;
        self->n[key] = 0;
        memset(self->numbers[key], 0, sizeof(self->numbers[key]));
    }
    sim_row_sum_add(&sum, variable, bit, mode == CADRE_ASSIGN_SUB ? -k : k, 1);
    add(self, &sum, bit);
}

void
sim_rows_assign(sim_rows_t *self, const sim_variable_t *variable, const uint64_t *keys,
                size_t count, cadre_assign_mode_t mode, int64_t k)
{
    cadre_assert(mode == CADRE_ASSIGN_SET || mode == CADRE_ASSIGN_ADD || mode == CADRE_ASSIGN_SUB);
    sim_victim_limits_t limits = {.step = self->steps};
    for (size_t i = 0; i < count; i++) {
        limits.named |= 1ULL << sim_table_find(variable, keys[i]);
    }
    for (size_t i = 0; i < count; i++) {
        assign_row(self, variable, sim_table_find(variable, keys[i]), mode, k, &limits);
    }
}

/* Whether a number is near what it should be: first values are no whole numbers, and bf16 has 8
 * bits. A row that was changed otherwise differs by 1 at least. */
static bool
is_near(cadre_dtype_t dtype, double number, double expected)
{
    const double bits = dtype == CADRE_BF16 ? 0x1p-8 : 0x1p-20;
    return fabs(number - expected) <= 0x1p-6 + fabs(expected) * bits;
}

/* Whether a number is the one that is kept. */
static bool
is_exact(cadre_dtype_t dtype, double number, float kept)
{
    return number == (dtype == CADRE_BF16 ? sim_round_to_bf16((double)kept) : (double)kept);
}

/* Of a wide row not every number is looked at. */
static uint32_t
next_column(const sim_variable_t *self, uint32_t column)
{
    return self->dim <= SIM_ROW_MAX || column < SIM_ROW_MAX || column + 1 >= self->dim - 1
               ? 1
               : self->dim / 8;
}

static bool
is_row(const sim_variable_t *self, const sim_rows_t *rows, uint32_t key, cadre_dtype_t dtype,
       const void *bytes)
{
    const bool is_first = rows->firsts >> key & 1;
    bool same = true;
    for (uint32_t i = 0; i < self->dim; i += next_column(self, i)) {
        const int64_t element = (int64_t)key * self->dim + i;
        const double first = is_first ? (double)self->firsts[element] : 0;
        const double expected = first + rows->n[key] * (double)sim_weight(element);
        const double number = sim_get(dtype, bytes, i);
        same = same && is_near(dtype, number, expected) &&
               (i >= SIM_ROW_MAX || is_exact(dtype, number, rows->numbers[key][i]));
    }
    return same;
}

bool
sim_table_are(const sim_variable_t *self, const sim_rows_t *rows, const uint64_t *keys,
              size_t count, cadre_dtype_t dtype, const void *bytes)
{
    const size_t row_size = self->dim * cadre_dtype_size(dtype);
    bool same = true;
    for (size_t i = 0; i < count; i++) {
        const uint32_t key = sim_table_find(self, keys[i]);
        same = same && key < SIM_KEYS &&
               is_row(self, rows, key, dtype, (const char *)bytes + i * row_size);
    }
    return same;
}

bool
sim_table_are_named(const sim_variable_t *self, const sim_rows_t *rows, uint64_t named,
                    cadre_dtype_t dtype, const void *bytes)
{
    uint64_t keys[SIM_KEYS];
    return sim_table_are(self, rows, keys, list_keys(self, named, keys), dtype, bytes);
}

const char *
sim_table_differs(const sim_variable_t *self, const sim_rows_t *rows, uint64_t of_part,
                  const cadre_table_t *table, char text[160])
{
    uint64_t keys[SIM_KEYS];
    float values[SIM_ROW_WIDE];
    const size_t count = list_keys(self, of_part, keys);
    const cadre_table_figures_t figures = cadre_table_figures(table);
    const uint64_t held = figures.rows;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const uint32_t key = sim_table_find(self, keys[i]);
        const bool has_row = rows->rows >> key & 1;
        /* a pull changes nothing but the table's own scratch memory */
        cadre_table_t *pulled = (cadre_table_t *)(uintptr_t)table;
        if (cadre_table_has(table, keys[i]) != has_row) {
            snprintf(text, 160, "key %" PRIu64 " has %s row", keys[i], has_row ? "no" : "a");
        } else if (cadre_table_pull(pulled, CADRE_F32, 1, &keys[i], values) < 0 ||
                   !is_row(self, rows, key, CADRE_F32, values)) {
            snprintf(text, 160, "key %" PRIu64 " begins with %.9g instead of %.9g, n = %g", keys[i],
                     (double)values[0], (double)rows->numbers[key][0], rows->n[key]);
        }
    }
    if (text[0] == '\0' && figures.unadmitted != rows->unadmitted) {
        snprintf(text, 160, "it has dropped %" PRIu64 " gradients, not %" PRIu64,
                 figures.unadmitted, rows->unadmitted);
    }
    if (text[0] == '\0' && (figures.evicted != rows->evicted || figures.expired != rows->expired)) {
        snprintf(text, 160,
                 "it has evicted %" PRIu64 " rows, not %" PRIu64 ", and %" PRIu64
                 " expired, not %" PRIu64,
                 figures.evicted, rows->evicted, figures.expired, rows->expired);
    }
    if (text[0] == '\0' && held != (uint64_t)__builtin_popcountll(rows->rows)) {
        snprintf(text, 160, "it has %" PRIu64 " rows, not %d", held,
                 __builtin_popcountll(rows->rows));
    }
    return text;
}
