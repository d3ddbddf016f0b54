/*
 * Partitions that the kernel makes: the workers live in one network namespace, coordinator and ps
 * in another, and the router between them (namespaces.sh) drops packets of one side or both without
 * a word. Unlike behind the proxy TCP gets no acknowledgements then. The addresses are not
 * loopback's, so the tasks know each other by keys. Needs root, ip and namespaces.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/field.h"
#include "tests/system/process.h"

enum {
    PS = 2,
    WORKERS = 2,
    LEASE_MS = 4000, /* TCP alone needs seconds to try again after a long cut */
    HEAL_LEASES = 3,
    SCRIPT_MS = 20000,
    SKIPPED = 77,
    NAME_SIZE = 32,
};

/* In the far namespace nobody else has ports. */
static const char *const coordinator_address = "tcp://10.93.2.2:20100";
static const char *const ps_addresses[PS] = {"tcp://10.93.2.2:20101", "tcp://10.93.2.2:20102"};

static const char *const sides[] = {"near", "far", "both"};

typedef struct {
    field_t field;
    scratch_t scratch; /* of the script's output, and the keys */
    char *keys;        /* "CADRE_KEYS=DIRECTORY" */
    char name[NAME_SIZE];
    char near[NAME_SIZE + 8];
    char far[NAME_SIZE + 8];
} net_t;

static int
script(const net_t *net, const char *order, const char *side)
{
    cadre_auto(cadre_free) char *program = source_path("tests/chaos/namespaces.sh");
    cadre_auto(cadre_free) char *output = scratch_path(&net->scratch, "namespaces.log");
    const char *words[] = {program, order, net->name, side, NULL};
    int end = 0;
    pid_t pid = process_start(&(process_t){.arguments = words, .output = output});
    require(process_wait(pid, SCRIPT_MS, &end) && WIFEXITED(end), "the end of namespaces.sh");
    return WEXITSTATUS(end);
}

static void
must(const net_t *net, const char *order, const char *side)
{
    require(script(net, order, side) == 0, order);
}

static void
prepare(void *context, field_role_t role, int index, field_start_t *start)
{
    const net_t *net = context;
    start->environment[0] = net->keys;
    const char *const before[] = {"/sbin/ip", "netns", "exec",
                                  role == FIELD_WORKER ? net->near : net->far};
    memcpy(start->before, before, sizeof(before));
    if (role == FIELD_PS) {
        start->address = ps_addresses[index];
    }
}

/* Drops one side's packets, or both sides', for a while; how long it took until all was whole
 * again. */
static int64_t
cut_and_heal(chaos_run_t *run, net_t *net, int side)
{
    int for_ms = 50 + chaos_draw(run, 3 * LEASE_MS / 2);
    must(net, "cut", sides[side]);
    field_spend(&net->field, for_ms);
    must(net, "heal", NULL);
    int64_t healed_ms = cadre_clock_now_ms();
    field_await_fence(&net->field);
    field_await_whole(&net->field);
    int64_t took_ms = cadre_clock_now_ms() - healed_ms;
    if (!run->short_form && took_ms > (int64_t)HEAL_LEASES * LEASE_MS) {
        field_fail(&net->field, "whole again %" PRId64 " ms after %d ms without packets of: %s",
                   took_ms, for_ms, sides[side]);
    }
    return took_ms;
}

static void
net_open(net_t *net, chaos_run_t *run)
{
    *net = (net_t){.name = ""};
    snprintf(net->name, sizeof(net->name), "cadre-chaos-%d", (int)getpid());
    snprintf(net->near, sizeof(net->near), "%s-near", net->name);
    snprintf(net->far, sizeof(net->far), "%s-far", net->name);
    scratch_open(&net->scratch);
    int code = script(net, "up", NULL);
    if (code == SKIPPED) {
        scratch_close(&net->scratch);
        chaos_skip(run, "no network namespaces to be had here (root and ip are needed)");
    }
    require(code == 0, "network namespaces");
    net->keys = field_make_keys(&net->scratch);
    field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .checkpoints = true,
        .address = coordinator_address,
        .settings = {.seed = run->seed, .lease_ms = LEASE_MS, .checkpoint_every_ms = 500},
        .prepare = prepare,
        .context = net};
    field_open(&net->field, &options);
}

void
chaos_namespaces(chaos_run_t *run)
{
    net_t net;
    board_t last;
    double *heals = cadre_calloc((size_t)run->count, sizeof(*heals));
    net_open(&net, run);
    for (int i = 0; i < run->count; i++) {
        heals[i] = (double)cut_and_heal(run, &net, i % (int)CADRE_COUNT_OF(sides));
    }
    field_spend(&net.field, LEASE_MS); /* a member that was cut off last is heard or lost by then */
    field_close(&net.field, &last);
    must(&net, "down", NULL);
    scratch_close(&net.scratch);
    free(net.keys);
    double p50 = chaos_percentile(heals, run->count, 50);
    double most = chaos_percentile(heals, run->count, 100);
    chaos_say(
        run,
        "%d cuts between network namespaces, in turn of the workers' packets, the others', and "
        "both, lease %d ms: %" PRIu64 " updates exact; whole again after p50 %.0f, most %.0f "
        "ms; %" PRIu64 " workers lost",
        run->count, LEASE_MS, last.updates, p50, most, last.workers_lost);
    chaos_number(run, "lease_ms", LEASE_MS);
    chaos_number(run, "heal_p50_ms", p50);
    chaos_number(run, "heal_max_ms", most);
    chaos_number(run, "updates", (double)last.updates);
    chaos_number(run, "workers_lost", (double)last.workers_lost);
    free(heals);
}
