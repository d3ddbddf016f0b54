#include "tests/sim/sim_link.h"

#include <stdlib.h>

#include "common/base/memory.h"

void
sim_links_fini(sim_links_t *self)
{
    size_t cursor = 0;
    sim_link_t *link = NULL;
    while ((link = cadre_u64_map_next(&self->by_ends, &cursor))) {
        free(link->cuts);
        free(link);
    }
    cadre_u64_map_fini(&self->by_ends);
}

sim_link_t *
sim_links_get(sim_links_t *self, uint32_t from, uint32_t to, bool *made)
{
    uint64_t key = (uint64_t)from << 32 | to;
    sim_link_t *link = cadre_u64_map_get(&self->by_ends, key);
    *made = !link;
    if (!link) {
        link = cadre_calloc(1, sizeof(*link));
        *link = (sim_link_t){.from = from, .to = to};
        cadre_u64_map_put(&self->by_ends, key, link);
    }
    return link;
}

void
sim_links_cut(sim_links_t *self, const sim_cut_t *cut)
{
    bool made = false;
    sim_link_t *link = sim_links_get(self, cut->from, cut->to, &made);
    link->cuts = cadre_realloc(link->cuts, link->cut_count + 1, sizeof(*link->cuts));
    link->cuts[link->cut_count++] = *cut;
}

void
sim_links_heal(sim_links_t *self)
{
    size_t cursor = 0;
    sim_link_t *link = NULL;
    while ((link = cadre_u64_map_next(&self->by_ends, &cursor))) {
        for (uint32_t i = 0; i < link->cut_count;) {
            if (link->cuts[i].until_ms == SIM_FOR_EVER) {
                i++;
            } else {
                link->cuts[i] = link->cuts[--link->cut_count];
            }
        }
    }
}

bool
sim_link_is_cut(sim_link_t *self, uint64_t now_ms)
{
    bool found = false;
    for (uint32_t i = 0; i < self->cut_count;) {
        const sim_cut_t *cut = &self->cuts[i];
        if (now_ms >= cut->until_ms) {
            self->cuts[i] = self->cuts[--self->cut_count];
            continue;
        }
        found = found || now_ms >= cut->since_ms;
        i++;
    }
    return found;
}

uint64_t
sim_link_leave_ms(sim_link_t *self, cadre_plane_t plane, uint64_t size_bytes, uint64_t now_ms)
{
    sim_lane_t *lane = &self->lanes[plane];
    if (lane->bytes_per_s == 0) {
        return 0;
    }
    uint64_t now_us = 1000 * now_ms;
    lane->free_us = lane->free_us > now_us ? lane->free_us : now_us;
    lane->free_us += size_bytes * 1000000 / lane->bytes_per_s;
    return (lane->free_us - now_us) / 1000;
}
