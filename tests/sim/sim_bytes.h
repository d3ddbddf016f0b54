/*
 * sim_bytes - which bytes of the data plane had to be sent, and which were sent again for nothing;
 * how many requests of the coordinator to shards were.
 *
 * Owner:   the network.
 * Thread:  one.
 *
 * A question is known by its bytes, an answer by whom and what it answers. One that is sent again
 * although nothing was lost between its two ends since it was sent first, nor has one of them stood
 * still or connected anew, was sent for nothing.
 */
#ifndef CADRE_TESTS_SIM_SIM_BYTES_H
#define CADRE_TESTS_SIM_SIM_BYTES_H

#include "common/base/u64_map.h"
#include "common/wire/outbox.h"
#include "tests/sim/sim_link.h"

/* What every header begins with, whatever the message. */
typedef struct {
    uint64_t request;
    uint64_t incarnation; /* of the sender */
    uint64_t epoch;
} sim_header_t;

/* Reads the beginning of an encoded header. */
sim_header_t sim_header_of(const cadre_outbox_entry_t *entry);

/* Zeroed memory knows no message. */
typedef struct {
    cadre_u64_map_t first; /* by message: 1 + when it was sent first */
} sim_bytes_t;

void sim_bytes_fini(sim_bytes_t *self);

/* Counts a message that is sent on `link`, if it is of those; what happened at its ends, and on the
 * way there and back, before `disturbed_ms` excuses those that were sent before. */
void sim_bytes_count(sim_bytes_t *self, sim_link_t *link, const cadre_outbox_entry_t *entry,
                     uint64_t now_ms, uint64_t disturbed_ms);

#endif
