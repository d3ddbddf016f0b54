/*
 * staleness - how stale the updates of one worker were when they were applied: a histogram for each
 * variable.
 *
 * Owner:   the worker core. Thread: its owner's.
 *
 * A core. Nothing is allocated for an update, only for the first one of a variable. A variable that
 * was dropped and one that is created later under its name share a histogram: two with the same
 * labels would have the whole page refused. Variables beyond CADRE_STALENESS_VARIABLES_MAX share
 * one of the name "(other)", which no variable can have: how many there are is the job's to say,
 * and how many values a label has must not be.
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

/* Zeroed at its start. */
typedef struct {
    cadre_name_map_t names;
    cadre_staleness_series_t *series[CADRE_STALENESS_VARIABLES_MAX]; /* [names.count], the same */
    cadre_staleness_series_t other;
} cadre_staleness_t;

void cadre_staleness_fini(cadre_staleness_t *self);

/* An update of the variable `name` was applied so many versions after its values were pulled. */
void cadre_staleness_note(cadre_staleness_t *self, const char *name, uint64_t versions);

/* An update of which only the staleness is known. */
void cadre_staleness_note_other(cadre_staleness_t *self, uint64_t versions);

/* cadre_worker_staleness_versions, with the worker's index as a label. */
void cadre_staleness_metrics(const cadre_staleness_t *self, const char *worker,
                             cadre_metrics_text_t *text);

#endif
