/*
 * staleness - how stale the updates of one worker were when they were applied: a histogram for each
 * variable.
 *
 * Owner:   the worker core. Thread: its owner's.
 *
 * A core. Memory is allocated for the first update of a variable only. A variable that was dropped
 * and one that is created later under its name share a histogram: Prometheus refuses a page on
 * which two series have the same labels. Variables beyond CADRE_STALENESS_VARIABLES_MAX share a
 * histogram named "(other)", which no variable can be called: a job may have any number of
 * variables, but the number of values of a label has to be bounded.
 */
#ifndef CADRE_WORKER_CORE_STALENESS_H
#define CADRE_WORKER_CORE_STALENESS_H

#include <stdint.h>

#include "common/base/limits.h"
#include "common/base/metrics_text.h"
#include "common/base/name_map.h"
#include "common/base/staleness_histogram.h"

typedef struct {
    cadre_staleness_histogram_t histogram;
    char name[CADRE_NAME_SIZE_MAX + 1]; /* of the variable */
} cadre_staleness_series_t;

/* Zeroed memory has no histograms of variables yet. */
typedef struct {
    cadre_name_map_t names;
    cadre_staleness_series_t *series[CADRE_STALENESS_VARIABLES_MAX]; /* [names.count]: the
                                                                        histograms in `names` */
    cadre_staleness_series_t other;                                  /* of all further variables */
} cadre_staleness_t;

void cadre_staleness_fini(cadre_staleness_t *self);

/* Notes an update of the variable `name` that was applied `versions` versions after its values were
 * pulled. */
void cadre_staleness_note(cadre_staleness_t *self, const char *name, uint64_t versions);

/* Notes an update of which only the staleness is known, not the variable. */
void cadre_staleness_note_other(cadre_staleness_t *self, uint64_t versions);

/* Writes the metric cadre_worker_staleness_versions, with `worker` (the index) as a label. */
void cadre_staleness_metrics(const cadre_staleness_t *self, const char *worker,
                             cadre_metrics_text_t *text);

#endif
