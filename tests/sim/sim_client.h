/*
 * sim_client - a program beside the job: it attaches, reads variables, schedules closures, and
 * goes: with a word or without.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * The attachment is the one that ships (coordinator/client/attachment.h); what a program does with
 * it is drawn. A closure of a client is a call as any other, whose record exists from the moment
 * that the client asks for it; the coordinator schedules it once, or never. One struct is one
 * client, which does not come back.
 */
#ifndef CADRE_TESTS_SIM_SIM_CLIENT_H
#define CADRE_TESTS_SIM_SIM_CLIENT_H

#include "coordinator/client/attachment.h"
#include "tests/sim/sim_check.h"
#include "tests/sim/sim_network.h"

enum { SIM_WISHES_MAX = 6 };

/* How a client goes. */
typedef enum {
    SIM_CLIENT_WAITS,    /* it says goodbye when it has all answers */
    SIM_CLIENT_LEAVES,   /* it says so and waits for nothing */
    SIM_CLIENT_VANISHES, /* without a word */
    SIM_CLIENT_FREEZES,  /* it stands still for longer than its lease, and hears that it is gone */
} sim_client_end_t;

/* What it has asked for. */
typedef struct {
    cadre_client_request_t request;
    sim_call_t *call;  /* of SCHEDULE; NULL: */
    uint32_t variable; /* of READ, an index */
    uint32_t partition;
    uint64_t asked_ms;
} sim_wish_t;

typedef struct {
    uint32_t node;
    cadre_task_t task;
    struct sim_cluster *cluster;
    cadre_random_t random;
    cadre_attachment_t attachment;
    cadre_outbox_t outbox;
    sim_wish_t *wishes[SIM_WISHES_MAX];
    uint32_t wish_count;
    uint32_t left; /* wishes to come */
    uint64_t end_ms;
    sim_client_end_t end;
    bool alive;
    uint64_t paused_ms; /* until then nothing happens here */
    uint64_t tick_due_ms;
} sim_client_t;

/* Starts it; node, task and cluster are set. */
void sim_client_start(sim_client_t *self, uint32_t number);

/* Ends its process; harmless on one that has ended. */
void sim_client_stop(sim_client_t *self);

/* A message; takes it. */
void sim_client_receive(sim_client_t *self, cadre_message_t *message);

/* Looks at what was answered, asks for more, goes. */
void sim_client_turn(sim_client_t *self);

/* The coordinator is about to take a message of a client, and has taken it: what it schedules it
 * schedules once. `request` and `call` are of a SCHEDULE, which the first finds. */
const sim_call_t *sim_client_call_of(struct sim_cluster *cluster, const cadre_message_t *message);
void sim_client_scheduled(struct sim_cluster *cluster, const cadre_task_t *client, uint64_t request,
                          const sim_call_t *call);

#endif
