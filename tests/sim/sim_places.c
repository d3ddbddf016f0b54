#include "tests/sim/sim_places.h"

#include <stdbool.h>

#include "common/base/assert.h"

enum {
    SAMPLE = 16,        /* rows that may go, of which one does */
    VISITS = 64,        /* rows that each update looks at for the old and small, */
    VISITS_PER_KEY = 2, /* and for each of its keys */
};

void
sim_places_add(sim_places_t *self, uint32_t key)
{
    cadre_assert(self->free_count > 0 || self->end < SIM_KEYS);
    const uint8_t row = self->free_count > 0 ? self->free[--self->free_count] : self->end++;
    self->keys[row] = (uint8_t)(key + 1);
    self->changed[key] = 0;
    self->uses[key] = 0;
}

void
sim_places_remove(sim_places_t *self, uint32_t key)
{
    for (uint8_t row = 0; row < self->end; row++) {
        if (self->keys[row] == key + 1) {
            self->keys[row] = 0;
            self->free[self->free_count++] = row;
        }
    }
}

void
sim_places_touch(sim_places_t *self, uint32_t key, uint32_t step)
{
    self->changed[key] = step;
    self->uses[key]++;
}

/* Moves a hand on. Returns the key of the row where it was, SIM_KEYS where there is none or it may
 * not go. */
static uint32_t
visit(const sim_places_t *self, uint8_t *hand, const sim_victim_limits_t *limits)
{
    const uint8_t held = self->keys[*hand];
    *hand = *hand + 1 < self->end ? (uint8_t)(*hand + 1) : 0;
    if (held == 0 || limits->named >> (held - 1) & 1) {
        return SIM_KEYS;
    }
    const bool is_newest = self->changed[held - 1] == limits->step;
    return is_newest && !limits->takes_newest ? SIM_KEYS : held - 1U;
}

uint32_t
sim_places_victim(sim_places_t *self, const sim_definition_t *definition,
                  const sim_victim_limits_t *limits)
{
    const int size = limits->takes_newest ? 1 : SAMPLE;
    const bool by_uses = definition->when_full == CADRE_TABLE_EVICT_LFU;
    uint64_t sample = 0;
    uint32_t victim = SIM_KEYS;
    for (uint32_t visits = 0; visits < self->end && __builtin_popcountll(sample) < size; visits++) {
        const uint32_t key = visit(self, &self->victim_hand, limits);
        if (key == SIM_KEYS) {
            continue;
        }
        sample |= 1ULL << key;
        const uint32_t best = victim == SIM_KEYS ? key : victim;
        const bool is_older = self->changed[key] < self->changed[best];
        const bool goes = by_uses && self->uses[key] != self->uses[best]
                              ? self->uses[key] < self->uses[best]
                              : is_older;
        victim = goes ? key : best;
    }
    for (; sample; sample &= sample - 1) {
        self->uses[__builtin_ctzll(sample)] /= 2;
    }
    return victim;
}

uint64_t
sim_places_expire(sim_places_t *self, const sim_definition_t *definition, uint32_t step,
                  uint32_t count, uint64_t small)
{
    const sim_victim_limits_t limits = {.step = step};
    uint64_t gone = 0;
    for (uint32_t left = VISITS + VISITS_PER_KEY * count; left > 0 && self->end > 0; left--) {
        const uint32_t key = visit(self, &self->expiry_hand, &limits);
        if (key == SIM_KEYS) {
            continue;
        }
        const bool is_old =
            definition->age_max > 0 && step - self->changed[key] > definition->age_max;
        if (is_old || small >> key & 1) {
            sim_places_remove(self, key);
            gone |= 1ULL << key;
        }
    }
    return gone;
}
