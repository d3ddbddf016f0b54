/*
 * sim_parts - pushes that come to a shard in parts, put together for the oracle.
 *
 * Owner:   a simulated shard.
 * Thread:  one.
 *
 * It takes the parts as the shard does and knows nothing of what the shard makes of them: when that
 * says that it has applied an update, all of its parts must have come.
 */
#ifndef CADRE_TESTS_SIM_SIM_PARTS_H
#define CADRE_TESTS_SIM_SIM_PARTS_H

#include "common/wire/message.h"

typedef struct {
    uint64_t incarnation;
    uint64_t request;
    uint64_t next;
    cadre_message_t whole;
    uint64_t *triples;
    size_t triple_count;
    uint64_t *rows; /* records of four numbers */
    size_t row_count;
} sim_push_t;

/* Zeroed memory holds none. */
typedef struct {
    sim_push_t *all;
    size_t count;
} sim_parts_t;

void sim_parts_fini(sim_parts_t *self);

/* Adds a part, which stays the caller's. */
void sim_parts_add(sim_parts_t *self, const cadre_message_t *part);

/* The whole of which `part` is one, as one message that is the parts' own; NULL when some have not
 * come. */
const cadre_message_t *sim_parts_whole(sim_parts_t *self, const cadre_message_t *part);

#endif
