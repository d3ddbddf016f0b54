#include "ps/core/table/row_index.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/spec/table_spec.h"

enum {
    CAPACITY_MIN = 16,
    DEPTH_MAX = 24,      /* bits that choose a segment; then segments grow without bound */
    TAG_SHIFT = 24,      /* the bits above those, up to HOME_SHIFT, are the tag */
    HOME_SHIFT = 32,     /* the bits above choose where a search begins */
    SEARCH_AHEAD = 16,   /* keys between two parts of the search for one, */
    SEARCHES = 64,       /* of which so many at most are under way: more than 2 SEARCH_AHEAD */
    AHEAD = 24,          /* places whose keys are asked for before they are needed */
    GROWTH_PER_KEY = 16, /* bytes of places for one more key, about, with what is spare */
    SPLIT_KEYS_MIN = CADRE_ROW_SEGMENT_KEYS / 2, /* of a segment that is split */
    RESERVED_KEYS = SPLIT_KEYS_MIN * 3 / 4,      /* of a segment, at most, when it is made */
    RESERVED_MAX =
        1 << 24,        /* keys for which room is made ahead: whoever says how many come may err */
    SPARE_SEGMENTS = 8, /* entries of the list for each segment, at most, but for short lists */
};

/* One small hash table. Places are in use where the tag is not 0. */
typedef struct {
    uint32_t capacity;
    uint32_t count;
    unsigned depth; /* its keys have the same `depth` lowest bits of their hash */
    unsigned holds; /* indexes that have it: one, and its forks */
    uint32_t *rows;
    uint8_t *tags; /* behind the rows, in the same memory */
} segment_t;

/* The search for a key, at a place in its segment. */
typedef struct {
    const segment_t *segment;
    uint32_t place;
    uint8_t tag;
} search_t;

struct cadre_row_index {
    const cadre_row_pages_t *pages; /* borrowed */
    unsigned depth;
    segment_t **segments; /* 2^depth: by the lowest bits of the hash; one may stand there often */
    size_t segment_count;
    uint64_t size_bytes; /* of the segments */
};

static uint64_t
hash_of(const cadre_row_index_t *self, uint32_t row)
{
    return cadre_table_mix(cadre_row_pages_key(self->pages, row));
}

static uint8_t
tag_of(uint64_t hash)
{
    uint8_t tag = (uint8_t)(hash >> TAG_SHIFT);
    return tag == 0 ? 1 : tag;
}

/* Returns where the search for a hash begins. */
static uint32_t
home_of(const segment_t *segment, uint64_t hash)
{
    return (uint32_t)((hash >> HOME_SHIFT) * segment->capacity >> 32);
}

static uint32_t
after(const segment_t *segment, uint32_t place)
{
    return place + 1 == segment->capacity ? 0 : place + 1;
}

static segment_t *
segment_of(const cadre_row_index_t *self, uint64_t hash)
{
    return self->segments[hash & (((uint64_t)1 << self->depth) - 1)];
}

static size_t
segment_size(uint32_t capacity)
{
    return sizeof(segment_t) + capacity * (sizeof(uint32_t) + sizeof(uint8_t));
}

static segment_t *
segment_new(cadre_row_index_t *self, uint32_t capacity, unsigned depth)
{
    segment_t *segment = cadre_calloc(1, segment_size(capacity));
    *segment = (segment_t){.capacity = capacity, .depth = depth, .holds = 1};
    segment->rows = (uint32_t *)(void *)(segment + 1);
    segment->tags = (uint8_t *)(segment->rows + capacity);
    self->size_bytes += segment_size(capacity);
    return segment;
}

static void
segment_free(cadre_row_index_t *self, segment_t *segment)
{
    self->size_bytes -= segment_size(segment->capacity);
    if (--segment->holds == 0) {
        free(segment);
    }
}

/* Adds a row to a segment that has room. */
static void
put(segment_t *segment, uint64_t hash, uint32_t row)
{
    uint32_t place = home_of(segment, hash);
    while (segment->tags[place] != 0) {
        place = after(segment, place);
    }
    segment->tags[place] = tag_of(hash);
    segment->rows[place] = row;
    segment->count++;
}

cadre_row_index_t *
cadre_row_index_new(const cadre_row_pages_t *pages)
{
    cadre_row_index_t *self = cadre_calloc(1, sizeof(*self));
    self->pages = pages;
    self->segments = cadre_calloc(1, sizeof(*self->segments));
    self->segments[0] = segment_new(self, CAPACITY_MIN, 0);
    self->segment_count = 1;
    return self;
}

/* Returns whether place `i` of the list is the first one that names its segment: the one at the
 * bits that all its keys have. */
static bool
is_first(const cadre_row_index_t *self, size_t i)
{
    return i >> self->segments[i]->depth == 0;
}

cadre_row_index_t *
cadre_row_index_fork(cadre_row_index_t *self, const cadre_row_pages_t *pages)
{
    const size_t length = (size_t)1 << self->depth;
    cadre_row_index_t *fork = cadre_calloc(1, sizeof(*fork));
    *fork = *self;
    fork->pages = pages;
    fork->segments = cadre_calloc(length, sizeof(*fork->segments));
    memcpy(fork->segments, self->segments, length * sizeof(*fork->segments));
    for (size_t i = 0; i < length; i++) {
        self->segments[i]->holds += is_first(self, i);
    }
    return fork;
}

void
cadre_row_index_destroy(cadre_row_index_t **self_p)
{
    cadre_row_index_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    /* From the last place on, so that those that come after the first one still name a segment. */
    for (size_t i = (size_t)1 << self->depth; i-- > 0;) {
        if (is_first(self, i)) {
            segment_free(self, self->segments[i]);
        }
    }
    free(self->segments);
    free(self);
}

void
cadre_row_index_reserve(cadre_row_index_t *self, uint64_t count)
{
    cadre_assert(self->segment_count == 1 && self->segments[0]->count == 0);
    count = cadre_min_u64(count, RESERVED_MAX);
    while (count >> self->depth > RESERVED_KEYS) {
        self->depth++;
    }
    segment_free(self, self->segments[0]);
    free(self->segments);
    self->segment_count = (size_t)1 << self->depth;
    self->segments = cadre_calloc(self->segment_count, sizeof(*self->segments));
    const uint32_t keys = (uint32_t)(count >> self->depth);
    for (size_t i = 0; i < self->segment_count; i++) {
        self->segments[i] = segment_new(self, keys + keys / 2 + CAPACITY_MIN, self->depth);
    }
}

/* Returns the place of a key in its segment; one that is not in use when the key is not there. */
static uint32_t
search(const cadre_row_index_t *self, const segment_t *segment, uint64_t hash, uint64_t key)
{
    const uint8_t tag = tag_of(hash);
    uint32_t place = home_of(segment, hash);
    while (segment->tags[place] != 0) {
        if (segment->tags[place] == tag &&
            cadre_row_pages_key(self->pages, segment->rows[place]) == key) {
            break;
        }
        place = after(segment, place);
    }
    return place;
}

uint32_t
cadre_row_index_find(const cadre_row_index_t *self, uint64_t key)
{
    const uint64_t hash = cadre_table_mix(key);
    const segment_t *segment = segment_of(self, hash);
    const uint32_t place = search(self, segment, hash, key);
    return segment->tags[place] == 0 ? CADRE_ROW_NONE : segment->rows[place];
}

/* Begins the search for a key: finds its segment, and asks for where the search in it begins. */
static search_t
begin_search(const cadre_row_index_t *self, uint64_t key)
{
    const uint64_t hash = cadre_table_mix(key);
    const segment_t *segment = segment_of(self, hash);
    const uint32_t home = home_of(segment, hash);
    __builtin_prefetch(segment->tags + home);
    __builtin_prefetch(segment->rows + home);
    return (search_t){segment, home, tag_of(hash)};
}

/* Goes on to the first place with the right tag, or one that is not in use. */
static void
pass_other_tags(search_t *search)
{
    const segment_t *segment = search->segment;
    while (segment->tags[search->place] != 0 && segment->tags[search->place] != search->tag) {
        search->place = after(segment, search->place);
    }
}

/* Asks for the key of the first row that may be the one. */
static void
ask_for_key(const cadre_row_index_t *self, search_t *search)
{
    pass_other_tags(search);
    if (search->segment->tags[search->place] != 0) {
        cadre_row_pages_prefetch(self->pages, search->segment->rows[search->place]);
    }
}

/* Returns the row of the key, or CADRE_ROW_NONE. */
static uint32_t
end_search(const cadre_row_index_t *self, search_t *search, uint64_t key)
{
    const segment_t *segment = search->segment;
    while (segment->tags[search->place] != 0) {
        const uint32_t row = segment->rows[search->place];
        if (cadre_row_pages_key(self->pages, row) == key) {
            return row;
        }
        search->place = after(segment, search->place);
        pass_other_tags(search);
    }
    return CADRE_ROW_NONE;
}

/* Each search has three parts, of which the later two touch memory that the one before has asked
 * for. They take turns: while one key's search begins, that of the key AHEAD before goes on, and
 * that of the key another AHEAD before ends. */
void
cadre_row_index_find_all(const cadre_row_index_t *self, size_t count, const uint64_t *keys,
                         uint32_t *rows)
{
    search_t searches[SEARCHES];
    for (size_t i = 0; i < count + 2 * (size_t)SEARCH_AHEAD; i++) {
        if (i < count) {
            searches[i % SEARCHES] = begin_search(self, keys[i]);
        }
        if (i >= SEARCH_AHEAD && i - SEARCH_AHEAD < count) {
            ask_for_key(self, &searches[(i - SEARCH_AHEAD) % SEARCHES]);
        }
        if (i >= 2 * (size_t)SEARCH_AHEAD) {
            const size_t ends = i - 2 * (size_t)SEARCH_AHEAD;
            rows[ends] = end_search(self, &searches[ends % SEARCHES], keys[ends]);
        }
    }
}

/* Lets the list name `segment` wherever the lowest bits are those of `bits`. */
static void
enlist(cadre_row_index_t *self, uint64_t bits, segment_t *segment)
{
    const uint64_t step = (uint64_t)1 << segment->depth;
    for (uint64_t i = bits & (step - 1); i < (uint64_t)1 << self->depth; i += step) {
        self->segments[i] = segment;
    }
}

/* Returns the segment of a hash, which no fork has. */
static segment_t *
own_segment(cadre_row_index_t *self, uint64_t hash)
{
    segment_t *segment = segment_of(self, hash);
    if (segment->holds == 1) {
        return segment;
    }

    segment_t *copy = segment_new(self, segment->capacity, segment->depth);
    copy->count = segment->count;
    memcpy(copy->rows, segment->rows,
           segment->capacity * (sizeof(*segment->rows) + sizeof(*segment->tags)));
    enlist(self, hash, copy);
    segment_free(self, segment);
    return copy;
}

/* Returns whether a place is in use; asks for the key of one further on, which stands anywhere in
 * memory. */
static bool
visit(const cadre_row_index_t *self, const segment_t *segment, uint32_t place)
{
    const uint32_t ahead = place + AHEAD;
    if (ahead < segment->capacity && segment->tags[ahead] != 0) {
        cadre_row_pages_prefetch(self->pages, segment->rows[ahead]);
    }
    return segment->tags[place] != 0;
}

/* Writes a segment, whose keys have the lowest bits of `bits`, again with a quarter more places. */
static void
enlarge(cadre_row_index_t *self, uint64_t bits, segment_t *segment)
{
    segment_t *larger =
        segment_new(self, segment->capacity + segment->capacity / 4, segment->depth);
    for (uint32_t i = 0; i < segment->capacity; i++) {
        if (visit(self, segment, i)) {
            put(larger, hash_of(self, segment->rows[i]), segment->rows[i]);
        }
    }
    enlist(self, bits, larger);
    segment_free(self, segment);
}

/* Splits a segment by the next bit of the hash. Both halves have the places that their keys need
 * now, and an eighth more. */
static void
split(cadre_row_index_t *self, uint64_t bits, segment_t *segment)
{
    const uint64_t bit = (uint64_t)1 << segment->depth;
    if (segment->depth == self->depth) {
        const size_t length = (size_t)1 << self->depth;
        self->segments = cadre_realloc(self->segments, 2 * length, sizeof(*self->segments));
        memcpy(self->segments + length, self->segments, length * sizeof(*self->segments));
        self->depth++;
    }

    uint32_t counts[2] = {0, 0};
    for (uint32_t i = 0; i < segment->capacity; i++) {
        if (visit(self, segment, i)) {
            counts[(hash_of(self, segment->rows[i]) & bit) != 0]++;
        }
    }

    segment_t *halves[2];
    for (int half = 0; half < 2; half++) {
        const uint32_t places = counts[half] + counts[half] / 2 + CAPACITY_MIN;
        halves[half] = segment_new(self, places, segment->depth + 1);
        enlist(self, (bits & (bit - 1)) | (half ? bit : 0), halves[half]);
    }
    for (uint32_t i = 0; i < segment->capacity; i++) {
        if (visit(self, segment, i)) {
            const uint64_t hash = hash_of(self, segment->rows[i]);
            put(halves[(hash & bit) != 0], hash, segment->rows[i]);
        }
    }

    self->segment_count++;
    segment_free(self, segment);
}

/* Returns how many keys the segment of a hash has when it is split: evenly spread numbers, by the
 * bits that its keys have in common. Keys are spread evenly over segments, so with one number for
 * all these would become full together, and an update had to split many of them. */
static uint32_t
split_keys(const segment_t *segment, uint64_t hash)
{
    const uint64_t bits = hash & (((uint64_t)1 << segment->depth) - 1);
    const uint64_t draw = cadre_table_mix(bits | (uint64_t)1 << segment->depth) >> 32;
    return SPLIT_KEYS_MIN + (uint32_t)(draw * SPLIT_KEYS_MIN >> 32);
}

/* Returns whether the segment of a hash is to be split: it has the keys, and the list would not
 * become long for the number of segments, as it would for keys that were made to have the same
 * bits. */
static bool
is_to_split(const cadre_row_index_t *self, const segment_t *segment, uint64_t hash)
{
    if (segment->count < SPLIT_KEYS_MIN || segment->depth >= DEPTH_MAX ||
        segment->count < split_keys(segment, hash)) {
        return false;
    }
    return segment->depth < self->depth ||
           (uint64_t)1 << self->depth <= SPARE_SEGMENTS * self->segment_count;
}

void
cadre_row_index_add(cadre_row_index_t *self, uint32_t row)
{
    const uint64_t hash = hash_of(self, row);
    segment_t *segment = segment_of(self, hash);
    if (is_to_split(self, segment, hash)) {
        split(self, hash, segment);
        segment = segment_of(self, hash);
    }
    if ((segment->count + 1) * UINT64_C(16) > segment->capacity * UINT64_C(13)) {
        enlarge(self, hash, segment);
    }
    put(own_segment(self, hash), hash, row);
}

/* Removes a row, and moves each of those behind it, up to the next place that is not in use, to the
 * place that has become free, if a search for it comes by there (Knuth, volume 3, 6.4, algorithm
 * R). */
void
cadre_row_index_remove(cadre_row_index_t *self, uint32_t row)
{
    const uint64_t key = cadre_row_pages_key(self->pages, row);
    const uint64_t hash = cadre_table_mix(key);
    segment_t *segment = own_segment(self, hash);
    uint32_t hole = search(self, segment, hash, key);
    cadre_assert(segment->tags[hole] != 0 && segment->rows[hole] == row);

    const uint32_t capacity = segment->capacity;
    for (uint32_t i = after(segment, hole); segment->tags[i] != 0; i = after(segment, i)) {
        const uint32_t home = home_of(segment, hash_of(self, segment->rows[i]));
        const uint32_t from_home = (i + capacity - home) % capacity;
        const uint32_t from_hole = (i + capacity - hole) % capacity;
        if (from_home >= from_hole) {
            segment->tags[hole] = segment->tags[i];
            segment->rows[hole] = segment->rows[i];
            hole = i;
        }
    }
    segment->tags[hole] = 0;
    segment->count--;
}

size_t
cadre_row_index_segments(const cadre_row_index_t *self)
{
    return self->segment_count;
}

uint64_t
cadre_row_index_size_bytes(const cadre_row_index_t *self)
{
    return self->size_bytes + ((uint64_t)1 << self->depth) * sizeof(*self->segments);
}

uint64_t
cadre_row_index_growth(const cadre_row_index_t *self, uint64_t count)
{
    const uint64_t list = (uint64_t)sizeof(*self->segments) << self->depth;
    return count * GROWTH_PER_KEY + cadre_min_u64(list, count * GROWTH_PER_KEY);
}
