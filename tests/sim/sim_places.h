/*
 * sim_places - which row of a table's part each key has, and which of them go.
 *
 * Owner:   the oracle.
 * Thread:  one.
 *
 * Written from the contracts of ps/core/table (table.h, row_eviction.h), for a table of so few keys
 * that everything is looked for: rows are numbered as they come, one that was freed last
 * is taken first, and a hand goes round over them. What goes follows from the updates before it
 * alone, so that it must be the same after every restore.
 */
#ifndef CADRE_TESTS_SIM_SIM_PLACES_H
#define CADRE_TESTS_SIM_SIM_PLACES_H

#include <stdint.h>

#include "tests/sim/sim_model.h"

typedef struct {
    uint8_t keys[SIM_KEYS]; /* 1 + the key of each row; 0: of none */
    uint8_t free[SIM_KEYS]; /* rows that were freed, the last one last */
    uint8_t free_count;
    uint8_t end;                /* all rows are below it */
    uint8_t victim_hand;        /* the row that is looked at next, to make room; */
    uint8_t expiry_hand;        /* for what is too old or too small */
    uint32_t changed[SIM_KEYS]; /* of a key: the update that changed its row last, */
    uint32_t uses[SIM_KEYS];    /* and how many have, halved now and then */
} sim_places_t;

/* Gives a key a row; takes it back. */
void sim_places_add(sim_places_t *self, uint32_t key);
void sim_places_remove(sim_places_t *self, uint32_t key);

/* Says that update `step` changes a key's row. */
void sim_places_touch(sim_places_t *self, uint32_t key, uint32_t step);

/* What may not go: keys in `named` (bits), and but for `takes_newest` those that update `step` has
 * changed. */
typedef struct {
    uint64_t named;
    bool takes_newest;
    uint32_t step;
} sim_victim_limits_t;

/* Chooses the key that goes for another; SIM_KEYS: none may. */
uint32_t sim_places_victim(sim_places_t *self, const sim_definition_t *definition,
                           const sim_victim_limits_t *limits);

/* Takes back the rows that are too old after update `step` of `count` keys, or are in `small`
 * (bits), but for those that the update has changed. Returns their keys: bits. */
uint64_t sim_places_expire(sim_places_t *self, const sim_definition_t *definition, uint32_t step,
                           uint32_t count, uint64_t small);

#endif
