/*
 * sim_link - what one node sends to another: its order, its bandwidth, its cuts, its bytes.
 *
 * Owner:   the network.
 * Thread:  one.
 *
 * A link goes one way. On each of the two planes messages leave one after the other, at so many
 * bytes a second: one that is large makes all wait that come after it on its plane, control as well
 * as data. A cut loses what is sent, or arrives, while it lasts; both planes are cut at once.
 */
#ifndef CADRE_TESTS_SIM_SIM_LINK_H
#define CADRE_TESTS_SIM_SIM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/u64_map.h"
#include "common/wire/plane.h"

#define SIM_FOR_EVER UINT64_MAX

enum { SIM_PLANES = CADRE_PLANE_DATA + 1 }; /* arrays by plane */

/* What node `from` sends to node `to` is lost for a while, or SIM_FOR_EVER. */
typedef struct {
    uint32_t from;
    uint32_t to;
    uint64_t since_ms;
    uint64_t until_ms;
} sim_cut_t;

/* One plane of a link. */
typedef struct {
    uint64_t bytes_per_s; /* 0: as many as are sent */
    uint64_t free_us;     /* when the last message has left */
    uint64_t last_ms;     /* when the newest that kept its place arrives */
} sim_lane_t;

typedef struct {
    uint32_t from;
    uint32_t to;
    sim_lane_t lanes[SIM_PLANES]; /* by plane */
    sim_cut_t *cuts;
    uint32_t cut_count;
    uint64_t disturbed_ms; /* when something on it was lost, or came late */
    uint64_t needed_bytes; /* of the data plane: sent, what was sent again not counted */
    uint64_t wasted_bytes; /* sent again for nothing (sim_bytes.h) */
    uint64_t repeated;     /* requests of the control plane that were */
} sim_link_t;

/* All links, by their ends; zeroed memory has none. */
typedef struct {
    cadre_u64_map_t by_ends;
} sim_links_t;

void sim_links_fini(sim_links_t *self);

/* Returns the link from one node to another, which is made when there is none; `made` says so. */
sim_link_t *sim_links_get(sim_links_t *self, uint32_t from, uint32_t to, bool *made);

/* Adds a cut to its link. */
void sim_links_cut(sim_links_t *self, const sim_cut_t *cut);

/* Ends every cut but those that last SIM_FOR_EVER. */
void sim_links_heal(sim_links_t *self);

/* Whether the link is cut at this time; forgets the cuts that are over. */
bool sim_link_is_cut(sim_link_t *self, uint64_t now_ms);

/* Takes the time that `size_bytes` need on a plane; returns how long after `now_ms` the last of
 * them has left. */
uint64_t sim_link_leave_ms(sim_link_t *self, cadre_plane_t plane, uint64_t size_bytes,
                           uint64_t now_ms);

#endif
