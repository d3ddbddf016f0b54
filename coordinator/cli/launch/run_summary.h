/*
 * run_summary - the end of a run: its exit code, the result on stdout, and on stderr the failure
 * and, last, the command to type next.
 *
 * Owner:   the caller; an open struct.
 * Thread:  the main thread, when every other has ended.
 */
#ifndef CADRE_COORDINATOR_CLI_LAUNCH_RUN_SUMMARY_H
#define CADRE_COORDINATOR_CLI_LAUNCH_RUN_SUMMARY_H

#include "common/base/status.h"
#include "coordinator/cli/terminal/console.h"
#include "coordinator/cli/terminal/events.h"
#include "coordinator/cli/train/trainer.h"

typedef struct {
    const cadre_job_t *job;                 /* NULL: a program of the user was run */
    const cadre_trainer_outcome_t *outcome; /* NULL: the trainer was never started */
    char *const *command;                   /* the command as the user typed it */
    bool json;
    int status; /* status of the supervisor's own calls; `text` is the error text of a failure */
    char text[CADRE_ERROR_TEXT_SIZE];
    bool cannot_write; /* the failure is that an output which the user chose cannot be written */
    int stop_signal;   /* signal that stopped the run; 0: none */
    bool ended;        /* the launcher ended the run, with `exit_code` and `reason` */
    int exit_code;
    const char *reason;
} cadre_run_summary_t;

/* Returns the exit code of the run: the one with which the launcher ended it, else that of a
 * failure of the supervisor, else of the signal that stopped it, else of the trainer. */
int cadre_run_summary_code(const cadre_run_summary_t *self);

/* Prints the summary and returns the exit code. */
int cadre_run_summary_print(const cadre_run_summary_t *self, cadre_console_t *console,
                            cadre_events_t *events);

#endif
