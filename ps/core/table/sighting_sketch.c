#include "ps/core/table/sighting_sketch.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/spec/table_spec.h"

/* Makes the counters of a key independent of its shard and of its place in the index. */
#define SIGHTING_SALT UINT64_C(0xD1B54A32D192ED03)

struct cadre_sighting_sketch {
    uint64_t sightings; /* since the counters were halved */
    uint8_t counters[CADRE_SIGHTING_ROWS][CADRE_SIGHTING_WIDTH];
};

cadre_sighting_sketch_t *
cadre_sighting_sketch_new(void)
{
    return cadre_calloc(1, sizeof(cadre_sighting_sketch_t));
}

cadre_sighting_sketch_t *
cadre_sighting_sketch_copy(const cadre_sighting_sketch_t *self)
{
    cadre_sighting_sketch_t *copy = cadre_sighting_sketch_new();
    *copy = *self;
    return copy;
}

void
cadre_sighting_sketch_destroy(cadre_sighting_sketch_t **self_p)
{
    free(*self_p);
    *self_p = NULL;
}

/* Computes which counter of each row is the key's: two hashes make any number of them (Kirsch and
 * Mitzenmacher 2006). */
static void
places_of(uint64_t key, uint32_t places[CADRE_SIGHTING_ROWS])
{
    const uint64_t hash = cadre_table_mix(key ^ SIGHTING_SALT);
    const uint32_t low = (uint32_t)hash;
    const uint32_t high = (uint32_t)(hash >> 32) | 1;
    for (uint32_t i = 0; i < CADRE_SIGHTING_ROWS; i++) {
        places[i] = (low + i * high) % CADRE_SIGHTING_WIDTH;
    }
}

static uint32_t
smallest(const cadre_sighting_sketch_t *self, const uint32_t places[CADRE_SIGHTING_ROWS])
{
    uint32_t count = UINT8_MAX;
    for (size_t i = 0; i < CADRE_SIGHTING_ROWS; i++) {
        count = (uint32_t)cadre_min_u64(count, self->counters[i][places[i]]);
    }
    return count;
}

static void
halve(cadre_sighting_sketch_t *self)
{
    for (size_t i = 0; i < CADRE_SIGHTING_ROWS; i++) {
        for (size_t j = 0; j < CADRE_SIGHTING_WIDTH; j++) {
            self->counters[i][j] /= 2;
        }
    }
    self->sightings = 0;
}

uint32_t
cadre_sighting_sketch_see(cadre_sighting_sketch_t *self, uint64_t key)
{
    if (self->sightings == CADRE_SIGHTING_RESET) {
        halve(self);
    }

    uint32_t places[CADRE_SIGHTING_ROWS];
    places_of(key, places);
    const uint32_t count = smallest(self, places);
    for (size_t i = 0; i < CADRE_SIGHTING_ROWS && count < UINT8_MAX; i++) {
        uint8_t *counter = &self->counters[i][places[i]];
        *counter = (uint8_t)cadre_max_u64(*counter, count + 1);
    }
    self->sightings++;
    return (uint32_t)cadre_min_u64(count + 1, UINT8_MAX);
}

uint32_t
cadre_sighting_sketch_count(const cadre_sighting_sketch_t *self, uint64_t key)
{
    uint32_t places[CADRE_SIGHTING_ROWS];
    places_of(key, places);
    return smallest(self, places);
}

uint64_t
cadre_sighting_sketch_save(const cadre_sighting_sketch_t *self, cadre_chunk_t **counters)
{
    *counters = cadre_chunk_new_copy(self->counters, sizeof(self->counters));
    return self->sightings;
}

int
cadre_sighting_sketch_load(cadre_sighting_sketch_t *self, uint64_t sightings,
                           const cadre_chunk_t *counters)
{
    if (cadre_chunk_size_bytes(counters) != sizeof(self->counters) ||
        sightings > CADRE_SIGHTING_RESET) {
        return cadre_fail(CADRE_ECORRUPT, "%zu counters of keys that were seen %llu times",
                          cadre_chunk_size_bytes(counters), (unsigned long long)sightings);
    }
    memcpy(self->counters, cadre_chunk_data(counters), sizeof(self->counters));
    self->sightings = sightings;
    return 0;
}

uint64_t
cadre_sighting_sketch_size_bytes(void)
{
    return sizeof(cadre_sighting_sketch_t);
}
