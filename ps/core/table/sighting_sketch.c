#include "ps/core/table/sighting_sketch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"

/* Makes the counters of a key independent of its shard, of its place in the index, and of those in
 * other layers. */
#define SIGHTING_SALT UINT64_C(0xD1B54A32D192ED03)

enum {
    LINE_BITS = 6, /* counters of a row in a group */
    LINE_SIZE = 1 << LINE_BITS,
    GROUP_SIZE = CADRE_SIGHTING_ROWS * LINE_SIZE,
    BLOCK_GROUPS = CADRE_SIGHTING_BLOCK_SIZE / GROUP_SIZE,
    GROUP_SHIFT =
        32, /* the group comes of the upper half of a hash, the places in it of the lower */
};

/* A layer; `number` counts those before it, ever. */
typedef struct {
    uint64_t number;
    uint32_t block_count;   /* a power of two */
    cadre_chunk_t **blocks; /* [block_count]; NULL: all counters are 0 */
} layer_t;

/* Where the counters of a key stand in a layer. */
typedef struct {
    uint32_t block;
    uint32_t counters[CADRE_SIGHTING_ROWS]; /* in the block */
} places_t;

struct cadre_sighting_sketch {
    layer_t layers[CADRE_SIGHTING_LAYERS_MAX]; /* the oldest first */
    size_t layer_count;                        /* at least 1 */
    uint64_t keys;                             /* counted in the newest layer */
    uint64_t taken;                            /* blocks of all layers */

    /* The blocks of layers that went, which others take the place of. */
    cadre_chunk_t **spare;
    size_t spare_count;
};

/* --- layers --- */

static uint32_t
doublings_of(uint64_t number)
{
    return (uint32_t)cadre_min_u64(number, CADRE_SIGHTING_DOUBLINGS);
}

static uint32_t
blocks_of(uint64_t number)
{
    return (uint32_t)CADRE_SIGHTING_FIRST_BLOCKS << doublings_of(number);
}

static uint64_t
keys_of(uint64_t number)
{
    return (uint64_t)CADRE_SIGHTING_LAYER_KEYS << doublings_of(number);
}

static layer_t
layer_new(uint64_t number)
{
    const uint32_t blocks = blocks_of(number);
    return (layer_t){.number = number,
                     .block_count = blocks,
                     .blocks = cadre_calloc(blocks, sizeof(cadre_chunk_t *))};
}

static void
drop_blocks(cadre_chunk_t ***blocks_p, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        cadre_chunk_unref(&(*blocks_p)[i]);
    }
    free(*blocks_p);
    *blocks_p = NULL;
}

static const layer_t *
newest(const cadre_sighting_sketch_t *self)
{
    return &self->layers[self->layer_count - 1];
}

/* Takes the oldest layer out, whose blocks are handed out again. */
static void
retire_oldest(cadre_sighting_sketch_t *self)
{
    cadre_assert(self->layer_count > 0); /* one layer alone is never too large */
    layer_t oldest = self->layers[0];
    self->layer_count--;
    memmove(self->layers, self->layers + 1, self->layer_count * sizeof(*self->layers));
    self->spare =
        cadre_realloc(self->spare, self->spare_count + oldest.block_count, sizeof(*self->spare));
    for (uint32_t i = 0; i < oldest.block_count; i++) {
        if (oldest.blocks[i]) {
            self->spare[self->spare_count++] = oldest.blocks[i];
            self->taken--;
        }
    }
    free(oldest.blocks);
}

/* Begins the next layer; the oldest ones go where all would be too large. */
static void
begin_layer(cadre_sighting_sketch_t *self, uint64_t number)
{
    uint64_t blocks = blocks_of(number);
    for (size_t i = 0; i < self->layer_count; i++) {
        blocks += self->layers[i].block_count;
    }
    while (blocks > CADRE_SIGHTING_SIZE_MAX / CADRE_SIGHTING_BLOCK_SIZE) {
        blocks -= self->layers[0].block_count;
        retire_oldest(self);
    }
    self->layers[self->layer_count++] = layer_new(number);
    self->keys = 0;
}

cadre_sighting_sketch_t *
cadre_sighting_sketch_new(void)
{
    cadre_sighting_sketch_t *self = cadre_calloc(1, sizeof(*self));
    begin_layer(self, 0);
    return self;
}

cadre_sighting_sketch_t *
cadre_sighting_sketch_copy(const cadre_sighting_sketch_t *self)
{
    cadre_sighting_sketch_t *copy = cadre_calloc(1, sizeof(*copy));
    *copy = *self;
    copy->spare = NULL;
    copy->spare_count = 0;
    for (size_t i = 0; i < self->layer_count; i++) {
        const layer_t *layer = &self->layers[i];
        copy->layers[i] = layer_new(layer->number);
        for (uint32_t k = 0; k < layer->block_count; k++) {
            copy->layers[i].blocks[k] = layer->blocks[k] ? cadre_chunk_ref(layer->blocks[k]) : NULL;
        }
    }
    return copy;
}

void
cadre_sighting_sketch_destroy(cadre_sighting_sketch_t **self_p)
{
    cadre_sighting_sketch_t *self = *self_p;
    if (!self) {
        return;
    }

    *self_p = NULL;
    for (size_t i = 0; i < self->layer_count; i++) {
        drop_blocks(&self->layers[i].blocks, self->layers[i].block_count);
    }
    drop_blocks(&self->spare, self->spare_count);
    free(self);
}

/* --- counters --- */

/* Computes which counters of a layer are the key's: one of each row of a group. */
static places_t
places_of(const layer_t *layer, uint64_t key)
{
    const uint64_t hash = cadre_table_mix(cadre_table_mix(key ^ SIGHTING_SALT) + layer->number);
    const uint32_t group =
        (uint32_t)(hash >> GROUP_SHIFT) & (layer->block_count * BLOCK_GROUPS - 1);
    places_t places = {.block = group / BLOCK_GROUPS};
    for (uint32_t i = 0; i < CADRE_SIGHTING_ROWS; i++) {
        const uint32_t place = (uint32_t)(hash >> (i * LINE_BITS)) % LINE_SIZE;
        places.counters[i] = group % BLOCK_GROUPS * GROUP_SIZE + i * LINE_SIZE + place;
    }
    return places;
}

/* Asks the CPU for the first counters of a key in a layer. */
static void
prefetch(const layer_t *layer, const places_t *places)
{
    const cadre_chunk_t *block = layer->blocks[places->block];
    if (block) {
        const uint8_t *counters = cadre_chunk_data(block);
        __builtin_prefetch(&counters[places->counters[0]]);
        __builtin_prefetch(&counters[places->counters[1]]);
    }
}

/* Returns the smallest of a key's counters in a layer. */
static uint32_t
smallest(const layer_t *layer, const places_t *places)
{
    const cadre_chunk_t *block = layer->blocks[places->block];
    const uint8_t *counters = block ? cadre_chunk_data(block) : NULL;
    uint32_t count = block ? UINT8_MAX : 0;
    for (size_t i = 0; i < CADRE_SIGHTING_ROWS && count > 0; i++) {
        count = (uint32_t)cadre_min_u64(count, counters[places->counters[i]]);
    }
    return count;
}

/* Returns a block of zeros: a spare one where nobody else holds that. */
static cadre_chunk_t *
block_new(cadre_sighting_sketch_t *self)
{
    cadre_chunk_t *block = self->spare_count > 0 ? self->spare[--self->spare_count] : NULL;
    if (block && !cadre_chunk_alone(block)) {
        cadre_chunk_unref(&block);
    }
    block = block ? block : cadre_chunk_new(CADRE_SIGHTING_BLOCK_SIZE);
    memset(cadre_chunk_data(block), 0, CADRE_SIGHTING_BLOCK_SIZE);
    return block;
}

/* Returns the counters of a block, which nobody else holds then. */
static uint8_t *
own(cadre_sighting_sketch_t *self, cadre_chunk_t **block)
{
    if (!*block) {
        *block = block_new(self);
        self->taken++;
    } else if (!cadre_chunk_alone(*block)) {
        cadre_chunk_t *copy =
            cadre_chunk_new_copy(cadre_chunk_data(*block), CADRE_SIGHTING_BLOCK_SIZE);
        cadre_chunk_unref(block);
        *block = copy;
    }
    return cadre_chunk_data(*block);
}

uint32_t
cadre_sighting_sketch_see(cadre_sighting_sketch_t *self, uint64_t key)
{
    if (self->keys == keys_of(newest(self)->number)) {
        begin_layer(self, newest(self)->number + 1);
    }

    const uint32_t before = cadre_sighting_sketch_count(self, key);
    const layer_t *layer = newest(self);
    const places_t places = places_of(layer, key);
    const uint32_t count = smallest(layer, &places);
    if (count < UINT8_MAX) {
        uint8_t *counters = own(self, &layer->blocks[places.block]);
        for (size_t i = 0; i < CADRE_SIGHTING_ROWS; i++) {
            uint8_t *counter = &counters[places.counters[i]];
            *counter = (uint8_t)cadre_max_u64(*counter, count + 1);
        }
    }
    self->keys += count == 0;
    return (uint32_t)cadre_min_u64(before + 1, UINT8_MAX);
}

uint32_t
cadre_sighting_sketch_count(const cadre_sighting_sketch_t *self, uint64_t key)
{
    places_t places[CADRE_SIGHTING_LAYERS_MAX];
    for (size_t i = 0; i < self->layer_count; i++) {
        places[i] = places_of(&self->layers[i], key);
        prefetch(&self->layers[i], &places[i]);
    }

    uint32_t count = 0;
    for (size_t i = 0; i < self->layer_count; i++) {
        count += smallest(&self->layers[i], &places[i]);
    }
    return (uint32_t)cadre_min_u64(count, UINT8_MAX);
}

/* --- saving and loading --- */

uint64_t
cadre_sighting_sketch_begun(const cadre_sighting_sketch_t *self)
{
    return newest(self)->number + 1;
}

uint64_t
cadre_sighting_sketch_keys(const cadre_sighting_sketch_t *self)
{
    return self->keys;
}

uint32_t
cadre_sighting_sketch_positions(const cadre_sighting_sketch_t *self)
{
    uint32_t positions = 0;
    for (size_t i = 0; i < self->layer_count; i++) {
        positions += self->layers[i].block_count;
    }
    return positions;
}

/* Returns where the block of a position is referred to; NULL when there is no such position. */
static cadre_chunk_t **
block_at(const cadre_sighting_sketch_t *self, uint32_t position)
{
    for (size_t i = 0; i < self->layer_count; i++) {
        if (position < self->layers[i].block_count) {
            return &self->layers[i].blocks[position];
        }
        position -= self->layers[i].block_count;
    }
    return NULL;
}

const cadre_chunk_t *
cadre_sighting_sketch_block(const cadre_sighting_sketch_t *self, uint32_t position)
{
    return *block_at(self, position);
}

/* Returns the first layer that is there when this one is the newest. */
static uint64_t
oldest_with(uint64_t number)
{
    uint64_t blocks = blocks_of(number);
    uint64_t oldest = number;
    while (oldest > 0 &&
           blocks + blocks_of(oldest - 1) <= CADRE_SIGHTING_SIZE_MAX / CADRE_SIGHTING_BLOCK_SIZE) {
        blocks += blocks_of(--oldest);
    }
    return oldest;
}

int
cadre_sighting_sketch_restore(uint64_t begun, uint64_t keys, cadre_sighting_sketch_t **out)
{
    if (begun < 1 || begun > UINT32_MAX || keys > keys_of(begun - 1)) {
        return cadre_fail(CADRE_ECORRUPT, "%llu layers of sightings, the last of %llu keys",
                          (unsigned long long)begun, (unsigned long long)keys);
    }

    cadre_sighting_sketch_t *self = cadre_calloc(1, sizeof(*self));
    for (uint64_t number = oldest_with(begun - 1); number < begun; number++) {
        self->layers[self->layer_count++] = layer_new(number);
    }
    self->keys = keys;
    *out = self;
    return 0;
}

int
cadre_sighting_sketch_load(cadre_sighting_sketch_t *self, uint32_t position, const void *bytes,
                           size_t size_bytes)
{
    cadre_chunk_t **block = block_at(self, position);
    if (!block || *block || size_bytes != CADRE_SIGHTING_BLOCK_SIZE) {
        return cadre_fail(CADRE_ECORRUPT, "a block of sightings %u of %zu bytes", position,
                          size_bytes);
    }
    *block = cadre_chunk_new_copy(bytes, size_bytes);
    self->taken++;
    return 0;
}

uint64_t
cadre_sighting_sketch_size_bytes(const cadre_sighting_sketch_t *self)
{
    return sizeof(*self) + (self->taken + self->spare_count) * CADRE_SIGHTING_BLOCK_SIZE +
           cadre_sighting_sketch_positions(self) * sizeof(cadre_chunk_t *);
}

uint64_t
cadre_sighting_sketch_growth(const cadre_sighting_sketch_t *self, size_t count)
{
    /* Older layers may have blocks that no key has fallen into, but they are few. */
    uint64_t blocks = cadre_sighting_sketch_positions(self) - self->taken;
    if (self->keys + count > keys_of(newest(self)->number)) {
        blocks += blocks_of(newest(self)->number + 1);
    }
    blocks -= cadre_min_u64(blocks, self->spare_count);
    return cadre_min_u64(blocks, count) * CADRE_SIGHTING_BLOCK_SIZE;
}
