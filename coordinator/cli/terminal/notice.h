/*
 * notice - what the trainer's and the coordinator's threads tell the main thread, which alone
 * writes to the terminal and to the events file.
 *
 * Owner:   a supervisor owns the notices; it closes them after everybody who sends has ended.
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

enum {
    CADRE_NOTICE_TEXT_SIZE = 2048, /* bytes of the text; longer ones are cut */
    CADRE_NOTICES_MAX = 65536,     /* not yet received: of more, all are lost but the last, DONE */
    CADRE_NOTICES_PROGRESS_MAX = 256, /* queued; beyond it progress is dropped */
};

typedef enum {
    CADRE_NOTICE_LOG,      /* an event of the coordinator: level, event, pairs */
    CADRE_NOTICE_INFO,     /* a sentence for people */
    CADRE_NOTICE_WAIT,     /* something that may take long has begun: what, limit */
    CADRE_NOTICE_WAITED,   /* it is over */
    CADRE_NOTICE_PROGRESS, /* how training stands */
    CADRE_NOTICE_EPOCH,    /* the same, at the end of an epoch */
    CADRE_NOTICE_DONE,     /* the trainer's thread has ended */
} cadre_notice_kind_t;

/* How training stands. */
typedef struct {
    int64_t epoch; /* from 1 */
    int64_t epochs;
    int64_t step;  /* training closures that have ended, in the whole job */
    int64_t steps; /* of all there will be */
    double epoch_fraction;
    double loss; /* mean over a sample of the latest closures; not a number when none is known */
    double rows_per_second;
    uint64_t staleness_max;
    int workers;
    int64_t workers_wanted;
    double checkpoint_age_s; /* negative: there is none */
    double seconds_left;     /* negative: not known */
    double accuracy;        /* of the evaluation after this epoch; not a number: none, no classes */
    double evaluation_loss; /* not a number: none */
} cadre_progress_t;

typedef struct {
    cadre_notice_kind_t kind;
    char level;       /* 'D', 'I', 'W', 'E' */
    int64_t limit_ms; /* of a wait */
    char event[64];
    cadre_progress_t progress;
    char text[CADRE_NOTICE_TEXT_SIZE]; /* last: only what is used of it is kept */
} cadre_notice_t;

typedef struct cadre_notices cadre_notices_t;

/* None yet. CADRE_EIO when the system has no descriptor left. */
int cadre_notices_open(cadre_notices_t **notices);
void cadre_notices_close(cadre_notices_t **notices_p);

/* A descriptor to poll: readable while there are notices. */
int cadre_notices_fd(const cadre_notices_t *self);

/* Sends one notice, or drops it where there is no room. */
void cadre_notice_send(cadre_notices_t *self, const cadre_notice_t *notice);

/* A notice with a formatted text and nothing else. */
void cadre_notice_say(cadre_notices_t *self, cadre_notice_kind_t kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A coordinator's log callback (cadre_log_callback_t): each event is a LOG notice. `notices`
 * outlives the coordinator. */
void cadre_notice_log(void *notices, char level, const char *event, const char *pairs);

/* Mark the beginning and the end of a wait that may take `limit_ms`: a long one is shown to
 * people. */
void cadre_notice_begin_wait(cadre_notices_t *self, int64_t limit_ms, const char *what);
void cadre_notice_end_wait(cadre_notices_t *self);

/* The next notice; false when there is none now. */
bool cadre_notice_receive(cadre_notices_t *self, cadre_notice_t *notice);

#endif
