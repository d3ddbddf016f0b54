#include "coordinator/cli/terminal/events.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/status.h"
#include "common/system/clock.h"

int
cadre_events_open(cadre_events_t *self, const char *path)
{
    self->file = fopen(path, "we");
    self->path = path;
    return self->file ? 0 : cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
}

void
cadre_events_close(cadre_events_t *self)
{
    if (self->file) {
        fclose(self->file);
        self->file = NULL;
    }
}

/* Writes one event as a line of JSON: the time, the event's name and `fields`, which are released.
 * Does nothing else where no file is open. */
void
cadre_events_write(cadre_events_t *self, const char *event, json_t *fields)
{
    char now[CADRE_CLOCK_TEXT_SIZE];
    if (!self->file) {
        json_decref(fields);
        return;
    }

    json_t *object = json_pack("{s:s, s:s}", "ts", cadre_clock_utc_text(now), "event", event);
    json_object_update(object, fields);
    json_decref(fields);
    cadre_auto(cadre_free) char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (fprintf(self->file, "%s\n", text) < 0 || fflush(self->file) != 0) {
        self->error = errno; /* the line may be incomplete: no other may follow it */
        cadre_events_close(self);
    }
}

/* Returns the progress of training as the fields of an event: a JSON object, which the caller
 * owns. */
json_t *
cadre_events_progress(const cadre_progress_t *progress)
{
    json_t *loss = isfinite(progress->loss) ? json_real(progress->loss) : json_null();
    json_t *object = json_pack(
        "{s:I, s:I, s:I, s:I, s:f, s:o, s:f, s:I, s:i}", "epoch", (json_int_t)progress->epoch,
        "epochs", (json_int_t)progress->epochs, "step", (json_int_t)progress->step, "steps",
        (json_int_t)progress->steps, "epoch_fraction", progress->epoch_fraction, "loss", loss,
        "examples_per_s", progress->rows_per_second, "staleness_max",
        (json_int_t)progress->staleness_max, "workers", progress->workers);
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (progress->metrics.known[i]) {
            json_object_set_new(object, cadre_metric_text(i),
                                json_real(progress->metrics.values[i]));
        }
    }

    return object;
}
