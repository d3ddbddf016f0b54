#include "coordinator/cli/terminal/metric.h"

#include <math.h>
#include <string.h>

#include "common/base/memory.h"

void
cadre_metrics_set(cadre_metrics_t *self, cadre_metric_t metric, double value)
{
    self->known[metric] = isfinite(value);
    self->values[metric] = self->known[metric] ? value : 0;
}

double
cadre_metrics_value(const cadre_metrics_t *self, cadre_metric_t metric)
{
    return self->known[metric] ? self->values[metric] : NAN;
}

/* Returns the word of a metric as in events and job files: "test_loss". */
const char *
cadre_metric_text(cadre_metric_t metric)
{
    static const char *const texts[] = {
#define X(NAME, word, higher) "test_" #word,
        CADRE_METRIC_LIST(X)
#undef X
    };
    return texts[metric];
}

/* Returns whether a higher value of the metric is the better one. */
bool
cadre_metric_is_higher_better(cadre_metric_t metric)
{
    static const bool higher_is_better[] = {
#define X(NAME, word, higher) higher,
        CADRE_METRIC_LIST(X)
#undef X
    };
    return higher_is_better[metric];
}

const char *
cadre_metric_word(cadre_metric_t metric)
{
    return cadre_metric_text(metric) + strlen("test_");
}

bool
cadre_metric_is_extra(cadre_metric_t metric)
{
    return metric != CADRE_METRIC_LOSS && metric != CADRE_METRIC_ACCURACY;
}

/* Returns whether the metric is neither loss nor accuracy, and its value is known. */
static bool
is_known(const cadre_metrics_t *self, cadre_metric_t metric)
{
    return cadre_metric_is_extra(metric) && self->known[metric];
}

/* Returns the known metrics but loss and accuracy as a JSON object: {"precision": 0.97}. */
json_t *
cadre_metrics_object(const cadre_metrics_t *self)
{
    json_t *object = json_object();
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (is_known(self, i)) {
            json_object_set_new(object, cadre_metric_word(i), json_real(self->values[i]));
        }
    }
    return object;
}

/* Returns the known metrics but loss and accuracy as text, ", precision 0.9712, f1 0.9698", freed
 * by the caller. */
char *
cadre_metrics_words(const cadre_metrics_t *self)
{
    char *words = cadre_strdup("");
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (is_known(self, i)) {
            char *longer =
                cadre_asprintf("%s, %s %.4g", words, cadre_metric_word(i), self->values[i]);
            cadre_free(&words);
            words = longer;
        }
    }
    return words;
}

/* Returns a confusion matrix [size, size] as a JSON array of rows; JSON null for NULL. */
json_t *
cadre_confusion_array(const double *counts, int size)
{
    if (!counts) {
        return json_null();
    }

    json_t *rows = json_array();
    for (int row = 0; row < size; row++) {
        json_t *columns = json_array();
        for (int column = 0; column < size; column++) {
            json_array_append_new(columns, json_integer((json_int_t)counts[row * size + column]));
        }
        json_array_append_new(rows, columns);
    }
    return rows;
}
