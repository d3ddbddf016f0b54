/*
 * SIGSTOP past the lease, then SIGCONT: of workers and of ps. A process that wakes up believes that
 * nothing has happened; nothing that it sends may count twice or be lost.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "common/system/clock.h"
#include "tests/chaos/chaos.h"
#include "tests/chaos/field.h"

enum { PS = 2, WORKERS = 3, LEASE_MS = 600, CLOSURES = 20 };

static bool
is_lost(field_t *field, void *context)
{
    const uint64_t *lost = context;
    return field->board->workers_lost + field->board->ps_lost >= *lost;
}

/* Stops one task until its lease has run out, and longer. */
static void
stop_one(chaos_run_t *run, field_t *field, field_role_t role)
{
    int index = chaos_draw(run, field_count(field, role));
    uint64_t lost = field->board->workers_lost + field->board->ps_lost + 1;
    field_signal(field, role, index, SIGSTOP);
    field_await(field, "a lease to run out", is_lost, &lost);
    field_spend(field, chaos_draw(run, LEASE_MS));
    field_signal(field, role, index, SIGCONT);
    if (chaos_draw(run, 2)) { /* otherwise the next one may stop while this one comes back */
        field_await_progress(field, CLOSURES);
    }
    if (chaos_draw(run, 2)) {
        field_await_fence(field);
    }
    field_await_whole(field);
}

void
chaos_stop(chaos_run_t *run)
{
    field_t field;
    board_t last;
    int ps = 0;
    field_options_t options = {
        .ps = PS,
        .workers = WORKERS,
        .checkpoints = true,
        .settings = {
            .seed = run->seed, .lease_ms = LEASE_MS, .assign = true, .checkpoint_every_ms = 300}};
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        bool is_ps = i % 2 == 1;
        ps += is_ps;
        stop_one(run, &field, is_ps ? FIELD_PS : FIELD_WORKER);
    }
    field_close(&field, &last);
    chaos_say(run,
              "%d stops past the lease of %d ms (%d of ps): %" PRIu64
              " updates exact on every shard, nothing stale applied; %" PRIu64
              " workers and %" PRIu64 " ps lost, %" PRIu64 " duplicates, %" PRIu64 " refused",
              run->count, LEASE_MS, ps, last.updates, last.workers_lost, last.ps_lost,
              last.duplicate, last.refused);
    chaos_number(run, "lease_ms", LEASE_MS);
    chaos_number(run, "updates", (double)last.updates);
    chaos_number(run, "refused", (double)last.refused);
    chaos_number(run, "duplicates", (double)last.duplicate);
}
