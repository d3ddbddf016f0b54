/*
 * Partitions between real processes: the proxy stands between workers, ps and coordinator, and
 * stalls one way or both ways of a link for up to one and a half leases. What matters: totals are
 * exact, and everybody is back, with all work done, within three leases of the heal.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/net.h"

enum {
    PS = 2,
    WORKERS = 3,
    LEASE_MS = 2000,
    HEAL_LEASES = 3,
    QUIET_MS = 100, /* between a heal and the next partition, at most */
};

/* --- partitions --- */

typedef enum { WORKER_COORDINATOR, WORKER_PS, PS_COORDINATOR, WORKER_ALL, CUT_COUNT } cut_t;

static const char *const cut_names[] = {"worker-coordinator", "worker-ps", "ps-coordinator",
                                        "worker-all"};

/* `rule` between the two sides of a cut; what is "up" from one task is "up" on all its links. */
static void
apply(net_t *net, cut_t cut, const int tasks[2], proxy_direction_t direction, bool reset)
{
    const stream_rule_t rule = {.stalled = true};
    const pid_t *pids = net->field.pids[FIELD_WORKER];
    int links[1 + PS];
    pid_t peers[1 + PS] = {0};
    int count = 0;
    if (cut == WORKER_COORDINATOR || cut == WORKER_ALL) {
        links[count++] = net->to_coordinator[FIELD_WORKER][tasks[0]];
    }
    for (int i = 0; i < PS; i++) {
        if (cut == WORKER_ALL || (cut == WORKER_PS && i == tasks[1])) {
            peers[count] = pids[tasks[0]];
            links[count++] = net->to_ps[i];
        }
    }
    if (cut == PS_COORDINATOR) {
        links[count++] = net->to_coordinator[FIELD_PS][tasks[1]];
        peers[count] = net->field.pids[FIELD_JOB][0];
        links[count++] = net->to_ps[tasks[1]];
    }
    for (int i = 0; i < count; i++) {
        /* The coordinator dials the ps: its way up is the ps's way down. */
        bool turned = cut == PS_COORDINATOR && i == 1 && direction != PROXY_BOTH;
        if (reset) {
            proxy_reset(net->proxy, links[i], peers[i]);
        } else {
            proxy_rule(net->proxy, links[i], peers[i],
                       turned ? (proxy_direction_t)(PROXY_BOTH - direction) : direction, rule);
        }
    }
}

/* One partition from its beginning until everything is whole again; how long the latter took. */
static int64_t
cut_and_heal(chaos_run_t *run, net_t *net, cut_t cut)
{
    const int tasks[2] = {chaos_draw(run, WORKERS), chaos_draw(run, PS)};
    proxy_direction_t direction = (proxy_direction_t)(1 + chaos_draw(run, PROXY_BOTH));
    int for_ms = 50 + chaos_draw(run, 3 * LEASE_MS / 2);
    bool reset = chaos_draw(run, 3) == 0;
    apply(net, cut, tasks, direction, false);
    field_spend(&net->field, for_ms);
    if (reset) { /* as after a partition that TCP gave up on */
        apply(net, cut, tasks, direction, true);
    }
    proxy_heal(net->proxy);
    int64_t healed_ms = cadre_clock_now_ms();
    field_await_fence(&net->field);
    field_await_whole(&net->field);
    int64_t took_ms = cadre_clock_now_ms() - healed_ms;
    if (!run->short_form && took_ms > (int64_t)HEAL_LEASES * LEASE_MS) {
        field_fail(&net->field,
                   "whole again %" PRId64 " ms after the heal: %s, worker %d, ps %d, direction %d, "
                   "%d ms%s",
                   took_ms, cut_names[cut], tasks[0], tasks[1], (int)direction, for_ms,
                   reset ? ", then reset" : "");
    }
    return took_ms;
}

void
chaos_partition(chaos_run_t *run)
{
    net_t net;
    board_t last;
    int counts[CUT_COUNT] = {0};
    double *heals = cadre_calloc((size_t)run->count, sizeof(*heals));
    const field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .checkpoints = true,
        .settings = {.seed = run->seed, .lease_ms = LEASE_MS, .checkpoint_every_ms = 500}};
    net_open(&net, &options);
    for (int i = 0; i < run->count; i++) {
        cut_t cut = (cut_t)(i < CUT_COUNT ? i : chaos_draw(run, CUT_COUNT));
        counts[cut]++;
        heals[i] = (double)cut_and_heal(run, &net, cut);
        field_spend(&net.field, chaos_draw(run, QUIET_MS));
    }
    field_spend(&net.field, LEASE_MS); /* a member that was cut off last is heard or lost by then */
    net_close(&net, &last);
    double p50 = chaos_percentile(heals, run->count, 50);
    double most = chaos_percentile(heals, run->count, 100);
    chaos_say(run,
              "%d partitions (worker-coordinator %d, worker-ps %d, ps-coordinator %d, worker-all "
              "%d), lease %d ms: %" PRIu64 " updates exact; whole again after p50 %.0f, most %.0f "
              "ms; %" PRIu64 " workers and %" PRIu64 " ps lost",
              run->count, counts[0], counts[1], counts[2], counts[3], LEASE_MS, last.updates, p50,
              most, last.workers_lost, last.ps_lost);
    chaos_number(run, "lease_ms", LEASE_MS);
    chaos_number(run, "heal_p50_ms", p50);
    chaos_number(run, "heal_max_ms", most);
    chaos_number(run, "updates", (double)last.updates);
    chaos_number(run, "workers_lost", (double)last.workers_lost);
    chaos_number(run, "ps_lost", (double)last.ps_lost);
    free(heals);
}
