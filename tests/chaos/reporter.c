#include "tests/chaos/reporter.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "common/system/clock.h"

enum {
    QUEUE = 64,         /* small, so that what was scheduled soon ends */
    STATUS_ROUNDS = 10, /* between two writes of the state as JSON */
};

void
reporter_fail(board_t *board, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(board->text, sizeof(board->text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "E job_failed %s\n", board->text);
    atomic_store(&board->state, BOARD_FAILED);
    _exit(1);
}

void
reporter_must(board_t *board, int status, const char *what)
{
    if (status < 0) {
        reporter_fail(board, "%s: %s: %s", what, cadre_status_name(status), cadre_error_text());
    }
}

static void
write_status(const board_t *board, cadre_coordinator_t *coordinator)
{
    cadre_auto(cadre_free) char *text = NULL;
    cadre_auto(cadre_free) char *part = cadre_asprintf("%s.part", board->status);
    if (cadre_coordinator_status_json(coordinator, &text) == 0) {
        FILE *file = fopen(part, "we");
        if (file) {
            fprintf(file, "%s\n", text);
            fclose(file);
            rename(part, board->status);
        }
    }
}

void
reporter_show(board_t *board, cadre_coordinator_t *coordinator)
{
    cadre_totals_t totals = cadre_coordinator_totals(coordinator);
    atomic_store(&board->scheduled, totals.scheduled);
    atomic_store(&board->finished, totals.finished);
    atomic_store(&board->attempts, totals.attempts);
    atomic_store(&board->workers, (uint64_t)totals.workers);
    atomic_store(&board->workers_lost, totals.workers_lost);
    atomic_store(&board->ps_there, (uint64_t)totals.ps);
    atomic_store(&board->ps_lost, totals.ps_lost);
    atomic_store(&board->checkpoints_done, totals.checkpoints);
    atomic_store(&board->checkpoints_failed, totals.checkpoints_failed);
    atomic_store(&board->retentions_failed, totals.retentions_failed);
    atomic_store(&board->deadlines_missed, totals.deadlines_missed);
    if (atomic_fetch_add(&board->beats, 1) % STATUS_ROUNDS == 0) {
        write_status(board, coordinator);
    }
}

static void
write_log(void *context, char level, const char *event, const char *pairs)
{
    (void)context;
    char time[CADRE_CLOCK_TEXT_SIZE];
    fprintf(stderr, "%s %c %s %s\n", cadre_clock_local_text(time), level, event, pairs);
}

cadre_coordinator_options_t
reporter_options(const board_t *board)
{
    cadre_coordinator_options_t options = cadre_coordinator_options();
    options.address = board->address;
    options.ps_count = board->ps;
    options.seed = board->seed;
    options.queue_capacity = QUEUE;
    options.lease_ms = board->lease_ms;
    options.ps_timeout_ms = board->ps_timeout_ms;
    options.recovery = (cadre_recovery_t)board->recovery;
    options.checkpoint_dir = board->checkpoints[0] ? board->checkpoints : NULL;
    options.checkpoint_every_ms = board->checkpoint_every_ms;
    options.closure_deadline_ms = board->deadline_ms;
    options.resume = board->resume ? CADRE_RESUME_AUTO : CADRE_RESUME_NEVER;
    options.log = write_log;
    return options;
}
