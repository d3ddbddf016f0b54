#include "coordinator/cli/train/training_tasks.h"

#include <stdio.h>

#include "common/base/memory.h"
#include "common/base/status.h"

/* Fails because ps or workers have not come in time. Where this command does not start them itself,
 * the error text says how to. */
static int
fail_absent(const cadre_trainer_options_t *options)
{
    const cadre_job_t *job = options->job;
    const char *address = cadre_coordinator_address(options->coordinator);
    cadre_totals_t totals = cadre_coordinator_totals(options->coordinator);
    cadre_auto(cadre_free) char *next = NULL;
    if (!options->launched) {
        next = cadre_asprintf(": start those that are missing by `cadre ps --coordinator %s` and "
                              "`cadre worker --coordinator %s`; --wait says how long to wait",
                              address, address);
    }

    return cadre_fail(CADRE_EUNAVAILABLE, "after %.0f s %d of %lld ps and %d workers are there%s",
                      job->wait_s, totals.ps, (long long)job->ps, totals.workers, next ? next : "");
}

int
cadre_training_tasks_wait(const cadre_trainer_options_t *options)
{
    const cadre_job_t *job = options->job;
    int64_t limit_ms = (int64_t)(job->wait_s * 1000);
    char what[96];

    snprintf(what, sizeof(what), "%lld ps and a worker", (long long)job->ps);
    cadre_notice_begin_wait(options->notices, limit_ms, what);
    int status = cadre_coordinator_wait_ready(options->coordinator, 1, limit_ms);
    cadre_notice_end_wait(options->notices);
    if (status == CADRE_ETIMEOUT) {
        return fail_absent(options);
    }

    return status;
}
