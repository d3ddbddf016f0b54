/*
 * ps_metrics - what a ps tells of itself: its figures as metrics, and why it is not ready.
 *
 * Owner:   the control loop.
 * Thread:  its owner's.
 */
#ifndef CADRE_PS_CORE_PS_METRICS_H
#define CADRE_PS_CORE_PS_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/metrics_text.h"
#include "ps/core/ps_core.h"
#include "ps/core/shard.h"

typedef struct {
    const char *build;
    uint64_t counters[CADRE_PS_COUNTER_COUNT]; /* what was done to the shard */
    uint64_t generation;                       /* generation of the shard; 0: it serves nobody */
    cadre_shard_figures_t shard;               /* what the shard holds */
    uint64_t size_bytes_max;                   /* most bytes of values and slots that it may hold */
    cadre_session_contact_t contact;
    bool leaving;           /* a signal came, or the session has ended */
    uint64_t sessions;      /* sessions that were begun */
    uint64_t restores;      /* generations that the shard has had in this process */
    uint64_t written;       /* snapshots that were written */
    uint64_t failed;        /* snapshots that could not be written */
    uint64_t written_bytes; /* size of the last file that was written */
    uint64_t written_ms;    /* how long the last file took to write */
} cadre_ps_figures_t;

/* Returns why the ps cannot do its work, a literal; "" when it can: it has joined, and its shard
 * serves. */
const char *cadre_ps_unready(const cadre_ps_figures_t *self);

void cadre_ps_metrics(const cadre_ps_figures_t *self, uint64_t now_ms, cadre_metrics_text_t *text);

#endif
