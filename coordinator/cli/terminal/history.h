/*
 * history - the file of --history: a CSV with one row for each epoch of training, for whoever draws
 * its curves. What Keras' CSVLogger writes, with what matters besides when updates are
 * asynchronous.
 *
 * Owner:   a supervisor.
 * Thread:  the main thread only.
 *
 * The columns are epoch, step, seconds, loss, then a column for each metric that evaluations find
 * (test_loss, test_accuracy, ...), then learning_rate, staleness_mean, staleness_max,
 * examples_per_s (docs/job-file.md). What is not known in an epoch is an empty field.
 *
 * A run that resumes adds rows to the file. Its first row may be of an epoch that the file has
 * already: training went on behind the checkpoint before it was interrupted. Rows from that epoch
 * on are removed, so that each epoch has one row, as in a run that was never interrupted. A row of
 * the very step at which the run resumes stays: it is of the same values, and may have an
 * evaluation that the resumed run has no reason to repeat.
 */
#ifndef CADRE_COORDINATOR_CLI_TERMINAL_HISTORY_H
#define CADRE_COORDINATOR_CLI_TERMINAL_HISTORY_H

#include <stdbool.h>
#include <stdio.h>

#include "coordinator/cli/terminal/notice.h"

enum { CADRE_HISTORY_LINE_SIZE = 1024 }; /* bytes of a line, its end included */

/* Zeroed: closed, and rows that are written are dropped. */
typedef struct {
    FILE *file;
    const char *path; /* borrowed */
    bool columns[CADRE_METRICS];
    bool has_old_rows;     /* rows of runs before may have to be removed at the first write */
    double seconds_before; /* training time of these runs, as their last row has it */
    int error; /* errno of the write that failed, after which nothing is written; or 0 */
} cadre_history_t;

/* Opens the file. `columns`: which metrics have a column. `resumes`: rows are added to those that
 * the file has, else the file begins empty.
 *
 * CADRE_EIO: the file cannot be written.
 * CADRE_ECONFIG: the file that the run is to add to has other columns; the text names the first
 *   that differs. */
int cadre_history_open(cadre_history_t *self, const char *path, const bool columns[CADRE_METRICS],
                       bool resumes);

void cadre_history_close(cadre_history_t *self);

/* Writes the row of an epoch that has ended. */
void cadre_history_write(cadre_history_t *self, const cadre_progress_t *progress);

#endif
