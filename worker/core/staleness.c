#include "worker/core/staleness.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

/* Frees the histograms of all variables. */
void
cadre_staleness_fini(cadre_staleness_t *self)
{
    for (size_t i = 0; i < self->names.count; i++) {
        free(self->series[i]);
    }
    cadre_name_map_fini(&self->names);
    *self = (cadre_staleness_t){.other = {.name = ""}};
}

/* Adds an update of the variable `name` to its histogram. `versions`: how stale the update was.
 * When there are as many histograms as a metrics page may have, all further variables share one. */
void
cadre_staleness_note(cadre_staleness_t *self, const char *name, uint64_t versions)
{
    cadre_staleness_series_t *series = cadre_name_map_get(&self->names, name);
    if (!series && self->names.count < CADRE_STALENESS_VARIABLES_MAX) {
        series = cadre_calloc(1, sizeof(*series));
        snprintf(series->name, sizeof(series->name), "%s", name);
        self->series[self->names.count] = series;
        cadre_name_map_put(&self->names, series->name, series);
    }
    series = series ? series : &self->other;
    cadre_staleness_histogram_add(&series->histogram, versions);
}

void
cadre_staleness_note_other(cadre_staleness_t *self, uint64_t versions)
{
    cadre_staleness_histogram_add(&self->other.histogram, versions);
}

/* Writes the histogram of one variable, with its labels. */
static void
tell(const cadre_staleness_series_t *series, const char *worker, const char *name,
     cadre_metrics_text_t *text)
{
    cadre_metrics_text_label(text, "worker", worker);
    cadre_metrics_text_label(text, "variable", name);
    cadre_metrics_text_histogram(text, cadre_staleness_bounds, series->histogram.counts,
                                 CADRE_STALENESS_BOUND_COUNT, series->histogram.sum);
}

/* Writes the staleness of updates as one metric: a histogram for each variable, and one for the
 * variables beyond the number that has its own. */
void
cadre_staleness_metrics(const cadre_staleness_t *self, const char *worker,
                        cadre_metrics_text_t *text)
{
    cadre_metrics_text_family(text, "cadre_worker_staleness_versions", CADRE_METRIC_HISTOGRAM,
                              "Versions of a variable between the pull that an update was computed "
                              "from and its being applied.");
    for (size_t i = 0; i < self->names.count; i++) {
        tell(self->series[i], worker, self->series[i]->name, text);
    }
    tell(&self->other, worker, "(other)", text);
}
