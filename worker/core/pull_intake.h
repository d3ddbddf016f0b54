/*
 * pull_intake - VALUES, the answer to a PULL, put into the parts of the run that pulls.
 *
 * Of whole partitions the newest are kept (value_cache.h), and of tables rows (row_cache.h): where
 * the answer says that what is kept has not changed, it takes the place of what does not come.
 *
 * Owner:   whoever takes. Thread: the network actor's.
 */
#ifndef CADRE_WORKER_CORE_PULL_INTAKE_H
#define CADRE_WORKER_CORE_PULL_INTAKE_H

#include "worker/core/closure_run.h"
#include "worker/core/row_cache.h"
#include "worker/core/value_cache.h"
#include "worker/core/worker_counters.h"

/* What the values go through; all borrowed. */
typedef struct {
    cadre_value_cache_t *values;
    cadre_row_cache_t *rows;
    cadre_worker_counters_t *counters;
} cadre_pull_intake_t;

/* Gives a part of a pull, which is some rows, those of them that are kept, if it is of a table:
 * before the shard, which is of `generation`, is asked. */
void cadre_pull_intake_hold(cadre_row_cache_t *rows, cadre_run_part_t *part, uint64_t generation);

/* Fills the parts of the run at `indexes` from VALUES, whose chunks belong to them in order, and
 * keeps what is new. CADRE_EMALFORMED unless lists and chunks fit what was asked for to the last
 * chunk; parts may then be filled. */
int cadre_pull_intake_take(const cadre_pull_intake_t *self, cadre_run_t *run, const size_t *indexes,
                           size_t count, const cadre_message_t *message);

#endif
