/*
 * sim_flow - the oracle of what is sent: nothing goes out twice over a connection that lives.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * Whoever waits for an answer must not say everything again because time has passed: over a slow
 * link that is congestion collapse. So each question and report that goes out again needs a reason,
 * one that lies between the two: something was lost, doubled or late between the two nodes, a side
 * gave its connection up, or a closure that has been reported came again. Bytes sent are then bytes
 * needed, but for what the network broke.
 */
#ifndef CADRE_TESTS_SIM_SIM_FLOW_H
#define CADRE_TESTS_SIM_SIM_FLOW_H

#include "common/u64_map.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_network.h"

typedef struct {
    cadre_u64_map_t sent;  /* by hash of header and nodes: harm done to the connection by then */
    cadre_u64_map_t came;  /* closures and attempts that a node was given */
    uint64_t needed_bytes; /* of payload, sent once */
    uint64_t again_bytes;  /* and again */
} sim_flow_t;

void sim_flow_fini(sim_flow_t *self);

/* A message as it is sent, before the network has it. */
void sim_flow_look(sim_flow_t *self, sim_check_t *check, sim_network_t *network, uint32_t from,
                   uint32_t to, const cadre_outbox_entry_t *entry);

/* A message as it is received. */
void sim_flow_arrived(sim_flow_t *self, sim_network_t *network, const sim_event_t *event,
                      const cadre_message_t *message);

#endif
