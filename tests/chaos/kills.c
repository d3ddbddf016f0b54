/*
 * kill -9 of workers, ps, the coordinator and all of them at once, under load; of anybody in a job
 * with a table. The job's totals must be exact in the end; it alone knows them (job.c).
 */
#include "tests/chaos/kills.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/memory.h"
#include "common/system/clock.h"

enum {
    PS = 2,
    WORKERS = 3,
    LEASE_MS = 3000,
    CHECKPOINT_MS = 100,
    PAUSE_MS = 120,      /* between two kills, at most, */
    PAUSE_LONG_MS = 150, /* and where more has to come back */
    CLOSURES = 40,       /* that must finish between some of the kills */
};

static field_options_t
options_of(const chaos_run_t *run, bool checkpoints)
{
    return (field_options_t){.ps = PS,
                             .workers = WORKERS,
                             .checkpoints = checkpoints,
                             .settings = {.seed = run->seed,
                                          .lease_ms = LEASE_MS,
                                          .assign = true,
                                          .checkpoint_every_ms = checkpoints ? CHECKPOINT_MS : 0}};
}

static bool
has_checkpoint(field_t *field, void *context)
{
    const uint64_t *checkpoints = context;
    return field->board->state == BOARD_RUNNING && field->board->checkpoints_done > *checkpoints;
}

static void
pause_between_jobs(chaos_run_t *run, field_t *field)
{
    if (chaos_draw(run, 4)) {
        field_await_progress(field, 1);
        uint64_t checkpoints = field->board->checkpoints_done;
        field_await(field, "a checkpoint", has_checkpoint, &checkpoints);
    }
    field_spend(field, chaos_draw(run, PAUSE_LONG_MS));
}

void
kills_pause(chaos_run_t *run, field_t *field, field_role_t role)
{
    if (role == FIELD_JOB) {
        pause_between_jobs(run, field);
        return;
    }
    if (chaos_draw(run, 2)) {
        field_await_progress(field, CLOSURES);
    }
    field_spend(field, chaos_draw(run, PAUSE_MS));
}

void
kills_one(chaos_run_t *run, field_t *field, field_role_t role)
{
    int index = chaos_draw(run, field_count(field, role));
    field_signal(field, role, index, SIGKILL);
    if (chaos_draw(run, 3) == 0) {
        field_spend(field, chaos_draw(run, PAUSE_MS));
    }
    field_start(field, role, index);
}

/* Ends the field and says what every one of these tests says. */
static void
finish(chaos_run_t *run, field_t *field, int64_t began_ms)
{
    board_t last;
    field_close(field, &last);
    chaos_say(run,
              "%d kills, %" PRIu64 " closures, %" PRIu64 " updates exact on every shard; %" PRIu64
              " workers and %" PRIu64 " ps lost, %" PRIu64 " checkpoints, %" PRIu64 " of %" PRIu64
              " starts resumed, %" PRIu64 " duplicates",
              run->count, last.finished, last.updates, last.workers_lost, last.ps_lost,
              last.checkpoints_done, last.resumed, last.starts, last.duplicate);
    chaos_number(run, "kills", run->count);
    chaos_number(run, "closures", (double)last.finished);
    chaos_number(run, "updates", (double)last.updates);
    chaos_number(run, "workers_lost", (double)last.workers_lost);
    chaos_number(run, "ps_lost", (double)last.ps_lost);
    chaos_number(run, "checkpoints", (double)last.checkpoints_done);
    chaos_number(run, "job_starts", (double)last.starts);
    chaos_number(run, "job_resumed", (double)last.resumed);
    chaos_number(run, "seconds", (double)(cadre_clock_now_ms() - began_ms) / 1000);
}

void
chaos_worker_kill(chaos_run_t *run)
{
    field_t field;
    int64_t began_ms = cadre_clock_now_ms();
    field_options_t options = options_of(run, false);
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        kills_one(run, &field, FIELD_WORKER);
        kills_pause(run, &field, FIELD_WORKER);
    }
    finish(run, &field, began_ms);
}

void
chaos_ps_kill(chaos_run_t *run)
{
    field_t field;
    int64_t began_ms = cadre_clock_now_ms();
    field_options_t options = options_of(run, true);
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        kills_one(run, &field, FIELD_PS);
        kills_pause(run, &field, FIELD_PS);
    }
    if (field.board->starts != 1) {
        field_fail(&field, "the job was started %" PRIu64 " times", field.board->starts);
    }
    finish(run, &field, began_ms);
}

void
chaos_coordinator_kill(chaos_run_t *run)
{
    field_t field;
    int64_t began_ms = cadre_clock_now_ms();
    field_options_t options = options_of(run, true);
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        kills_one(run, &field, FIELD_JOB);
        kills_pause(run, &field, FIELD_JOB);
    }
    finish(run, &field, began_ms);
}

/* All processes within moments, in random order, then all again in another order. */
static void
kill_everything(chaos_run_t *run, field_t *field)
{
    enum { ALL = 1 + PS + WORKERS };
    for (int pass = 0; pass < 2; pass++) {
        int first = chaos_draw(run, ALL);
        for (int i = 0; i < ALL; i++) {
            int which = (first + i) % ALL;
            field_role_t role = which == 0 ? FIELD_JOB : which <= PS ? FIELD_PS : FIELD_WORKER;
            int index = which == 0 ? 0 : which <= PS ? which - 1 : which - 1 - PS;
            if (pass == 0) {
                field_signal(field, role, index, SIGKILL);
            } else {
                field_start(field, role, index);
            }
        }
    }
}

void
chaos_everything_kill(chaos_run_t *run)
{
    field_t field;
    int64_t began_ms = cadre_clock_now_ms();
    field_options_t options = options_of(run, true);
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        kill_everything(run, &field);
        pause_between_jobs(run, &field);
    }
    finish(run, &field, began_ms);
}

/* A job with a table, of which anybody dies: mostly a ps. */
void
chaos_table_kill(chaos_run_t *run)
{
    static const field_role_t roles[] = {FIELD_PS,     FIELD_PS,     FIELD_PS,     FIELD_PS,
                                         FIELD_WORKER, FIELD_WORKER, FIELD_WORKER, FIELD_JOB};
    field_t field;
    int64_t began_ms = cadre_clock_now_ms();
    field_options_t options = options_of(run, true);
    options.settings.table = true;
    field_open(&field, &options);
    for (int i = 0; i < run->count; i++) {
        const field_role_t role = roles[chaos_draw(run, (int)CADRE_COUNT_OF(roles))];
        kills_one(run, &field, role);
        kills_pause(run, &field, role);
    }
    finish(run, &field, began_ms);
}
