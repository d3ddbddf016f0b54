/*
 * worker_metrics - what a worker tells of itself: its figures as metrics, and why it is not ready.
 *
 * Owner:   the network actor.
 * Thread:  its owner's.
 */
#ifndef CADRE_WORKER_CORE_WORKER_METRICS_H
#define CADRE_WORKER_CORE_WORKER_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/metrics_text.h"
#include "worker/core/worker_core.h"

/* Figures of the process that the core does not know. */
typedef struct {
    bool drains;
    uint64_t drain_ms; /* for how long */
} cadre_worker_figures_t;

/* Returns why the worker takes no closures, a literal; "" when it takes them: it has joined, hears
 * the coordinator, and is not draining. */
const char *cadre_worker_unready(const cadre_worker_core_t *core, uint64_t now_ms);

void cadre_worker_metrics(const cadre_worker_core_t *core, const cadre_worker_figures_t *figures,
                          uint64_t now_ms, cadre_metrics_text_t *text);

#endif
