/*
 * notice - messages of the trainer's and the coordinator's threads to the main thread, which alone
 * writes to the terminal and to the events file.
 *
 * Owner:   a supervisor owns the notices; it closes them after all sending threads have ended.
 * Thread:  any thread sends, the main thread receives.
 *
 * Neither the coordinator's thread nor training waits for the terminal. Notices are queued, up to a
 * limit that only a stalled main thread reaches; an event then says how many were lost.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_NOTICE_H
#define CADRE_COORDINATOR_CLI_TERMINAL_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/cli/terminal/metric.h"

enum {
    CADRE_NOTICE_TEXT_SIZE = 2048, /* bytes of the text; longer ones are truncated */
    CADRE_NOTICES_MAX = 65536,     /* most queued notices; further ones are dropped, except DONE */
    CADRE_NOTICES_PROGRESS_MAX = 256, /* when so many are queued, a PROGRESS notice is dropped */
};

typedef enum {
    CADRE_NOTICE_LOG,  /* an event of the coordinator: level, event, pairs */
    CADRE_NOTICE_INFO, /* a sentence for people */
    /* A wait that may take long has begun: `text` says for what, `limit_ms` how long at most. */
    CADRE_NOTICE_WAIT,
    CADRE_NOTICE_WAITED,   /* the wait is over */
    CADRE_NOTICE_PROGRESS, /* progress of training */
    CADRE_NOTICE_EPOCH,    /* progress at the end of an epoch */
    CADRE_NOTICE_DONE,     /* the trainer's thread has ended */
} cadre_notice_kind_t;

/* The progress of training. */
typedef struct {
    int64_t epoch; /* from 1 */
    int64_t epochs;
    int64_t step;  /* how many training closures of the whole job have ended */
    int64_t steps; /* how many training closures the whole job has */
    double epoch_fraction;
    double loss; /* mean over a sample of the latest closures; not a number when none is known */
    double rows_per_second;
    double seconds;         /* since training began in this run */
    double learning_rate;   /* of the ps' next update */
    uint64_t staleness_max; /* the largest so far */
    double staleness_mean;  /* of the closures of this epoch; not a number when none is known */
    int workers;
    int64_t workers_wanted;
    double checkpoint_age_s; /* negative: there is no checkpoint */
    double seconds_left;     /* negative: not known */
    cadre_metrics_t metrics; /* what the evaluation after this epoch found */
} cadre_progress_t;

typedef struct {
    cadre_notice_kind_t kind;
    char level;       /* 'D', 'I', 'W', 'E' */
    int64_t limit_ms; /* WAIT: how long it may take */
    char event[64];
    cadre_progress_t progress;
    char text[CADRE_NOTICE_TEXT_SIZE]; /* must be the last field: only the used part is queued */
} cadre_notice_t;

typedef struct cadre_notices cadre_notices_t;

/* Opens an empty queue of notices. CADRE_EIO when the system has no descriptor left. */
int cadre_notices_open(cadre_notices_t **notices);
void cadre_notices_close(cadre_notices_t **notices_p);

/* Returns a descriptor to poll, which is readable while notices are queued. */
int cadre_notices_fd(const cadre_notices_t *self);

/* Sends one notice, or drops it when there is no room. */
void cadre_notice_send(cadre_notices_t *self, const cadre_notice_t *notice);

/* Sends a notice of this kind with a formatted text. */
void cadre_notice_say(cadre_notices_t *self, cadre_notice_kind_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A coordinator's log callback (cadre_log_callback_t): each event is a LOG notice. `notices`
 * outlives the coordinator. */
void cadre_notice_log(void *notices, char level, const char *event, const char *pairs);

/* Mark the beginning and the end of a wait that may take `limit_ms`: a long one is shown to
 * people. */
void cadre_notice_begin_wait(cadre_notices_t *self, int64_t limit_ms, const char *what);
void cadre_notice_end_wait(cadre_notices_t *self);

/* Takes the next notice; false when there is none now. */
bool cadre_notice_receive(cadre_notices_t *self, cadre_notice_t *notice);

#endif
