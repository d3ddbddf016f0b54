/*
 * sim_network - simulated time, everything that will happen in it, and messages on their way.
 *
 * Owner:   the cluster.
 * Thread:  one.
 *
 * Whatever happens is an event in one queue, ordered by time and then by the order of asking, so a
 * seed decides everything. Messages from one node to another on one plane keep their order, as on a
 * connection, but for those that the faults make late, and share its bandwidth (sim_link.h); a
 * message is dropped, doubled, delayed or made late when it is sent, and dropped on arrival when
 * the connection is cut at that moment. A ghost is a second copy that comes much later, when its
 * receiver may have begun anew. A message on its way shares its chunks with its sender, as in
 * ZeroMQ's queue: their bytes must not change meanwhile. News of a shard is lost only with its
 * connection, as on TCP: what the coordinator says after it is lost too, until the worker has said
 * HELLO.
 */
#ifndef CADRE_TESTS_SIM_SIM_NETWORK_H
#define CADRE_TESTS_SIM_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/random.h"
#include "common/wire/outbox.h"
#include "common/wire/task.h"
#include "tests/sim/sim_bytes.h"
#include "tests/sim/sim_link.h"

enum { SIM_NODES_MAX = 1536 }; /* the coordinator, every incarnation of a ps or a worker */

typedef enum {
    SIM_MESSAGE,   /* `entry` has arrived from node `from` */
    SIM_TICK,      /* a core's timer */
    SIM_GONE,      /* the connection to node `from` is seen closed */
    SIM_CONNECTED, /* the connection to the coordinator is up */
    SIM_COMPUTED,  /* slot `value` of a worker has computed */
    SIM_OPENED,    /* a worker has opened dataset `value` */
    SIM_LOADED,    /* a worker has read the batches of closure `value` */
    SIM_STORED,    /* a store has done order `value` */
    SIM_ANSWERED,  /* and its answer is there */
    SIM_FAULT,     /* time for the next fault */
    SIM_SCRIPT,    /* the user program goes on */
    SIM_CLIENT,    /* another client begins */
} sim_event_kind_t;

typedef struct {
    uint64_t due_ms;
    uint64_t sequence;
    sim_event_kind_t kind;
    uint32_t node;
    uint32_t from;
    uint64_t value;
    uint32_t life;              /* of the coordinator: SIM_STORED, SIM_ANSWERED */
    cadre_task_t sender;        /* SIM_MESSAGE */
    cadre_outbox_entry_t entry; /* SIM_MESSAGE */
    uint64_t payload_hash;      /* of its chunks when it was sent */
    bool has_come;              /* SIM_MESSAGE: it waits for its receiver, no cut stops it */
} sim_event_t;

/* How bad the network is; chances are in 10,000. */
typedef struct {
    uint32_t drop;
    uint32_t twice;
    uint32_t late;         /* overtaken by later ones */
    uint32_t ghost;        /* once more, much later */
    uint32_t delay_ms_max; /* of every message */
    uint32_t late_ms_max;  /* of a late one, on top */
    uint32_t ghost_ms_max;
} sim_weather_t;

/* How many bytes a second a link can take, by plane; 0: as many as are sent. */
typedef struct {
    uint64_t bytes_per_s[SIM_PLANES];
} sim_bandwidth_t;

typedef struct {
    uint64_t now_ms;
    uint64_t sequence;
    uint64_t events; /* taken so far */
    uint64_t trace;  /* hash over all events: two runs of a seed must agree */
    cadre_random_t random;
    sim_weather_t weather;
    sim_bandwidth_t bandwidth;
    sim_links_t links;
    sim_bytes_t bytes;
    uint64_t disturbed_ms[SIM_NODES_MAX]; /* until when a node stood still, or connected anew */
    sim_event_t *heap;
    size_t count;
    size_t capacity;
    bool broken[SIM_NODES_MAX];     /* the connection from the coordinator, until SIM_CONNECTED */
    uint32_t unread[SIM_NODES_MAX]; /* messages that have come and wait for their receiver */
    uint64_t sent;
    uint64_t dropped;
    uint64_t doubled;
} sim_network_t;

void sim_network_init(sim_network_t *self, uint64_t seed);
void sim_network_fini(sim_network_t *self);

/* Has an event happen at node `node` in `delay_ms`. */
void sim_network_at(sim_network_t *self, uint64_t delay_ms, sim_event_kind_t kind, uint32_t node,
                    uint64_t value);

/* The same with a second node. */
void sim_network_at_from(sim_network_t *self, uint64_t delay_ms, sim_event_kind_t kind,
                         uint32_t node, uint32_t from);

/* Has `event` happen, whose due_ms says when. */
void sim_network_put(sim_network_t *self, const sim_event_t *event);

/* Sends `entry`, which is taken, from the task `sender`. */
void sim_network_send(sim_network_t *self, const cadre_task_t *sender, uint32_t from, uint32_t to,
                      cadre_outbox_entry_t *entry);

/* Lets an event happen later instead, among those of that time in the order in which they were
 * made. Takes its entry. */
void sim_network_postpone(sim_network_t *self, sim_event_t *event, uint64_t due_ms);

/* The process at a node has ended: messages that have come and wait for it end with it. What is on
 * its way finds the next one. */
void sim_network_lose_unread(sim_network_t *self, uint32_t node);

/* Takes the next event and moves the time; false when nothing will ever happen. Messages that a cut
 * stops are passed over. The caller ends the entry of a SIM_MESSAGE. */
bool sim_network_next(sim_network_t *self, sim_event_t *event);

/* Whether the payload still is what it was when it was sent. */
bool sim_network_intact(const sim_event_t *event);

void sim_network_cut(sim_network_t *self, const sim_cut_t *cut);

/* A node stands still until then, connects anew, or restores its shard: who waits for its answers
 * may ask again. */
void sim_network_disturb(sim_network_t *self, uint32_t node, uint64_t until_ms);

/* Ends all faults, and all cuts but those that last for ever. */
void sim_network_calm(sim_network_t *self);

/* A number in [low, high]. */
uint64_t sim_between(cadre_random_t *random, uint64_t low, uint64_t high);

/* True in `chance` of 10,000 cases. */
bool sim_chance(cadre_random_t *random, uint32_t chance);

#endif
