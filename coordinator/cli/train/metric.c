#include "coordinator/cli/train/metric.h"

#include <math.h>

cadre_metrics_t
cadre_metrics_none(void)
{
    cadre_metrics_t none;
    for (int i = 0; i < CADRE_METRICS; i++) {
        none.values[i] = NAN;
    }
    return none;
}

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
