#include "coordinator/cli/terminal/history.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"

/* Appends a field to a line, after a comma where the line has fields already. */
static void
add_text(char line[CADRE_HISTORY_LINE_SIZE], const char *text)
{
    size_t length = strlen(line);
    cadre_assert(length + strlen(text) + 2 < CADRE_HISTORY_LINE_SIZE);
    snprintf(line + length, CADRE_HISTORY_LINE_SIZE - length, "%s%s", length > 0 ? "," : "", text);
}

/* Appends a number as a field; one that is not known (NaN) or infinite is an empty field. */
static void
add_number(char line[CADRE_HISTORY_LINE_SIZE], double value)
{
    char text[40] = "";
    if (isfinite(value)) {
        snprintf(text, sizeof(text), "%.9g", value);
    }
    add_text(line, text);
}

/* Writes the names of the columns as a line without its end. */
static void
header_line(const cadre_history_t *self, char line[CADRE_HISTORY_LINE_SIZE])
{
    line[0] = '\0';
    add_text(line, "epoch");
    add_text(line, "step");
    add_text(line, "seconds");
    add_text(line, "loss");
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (self->columns[i]) {
            add_text(line, cadre_metric_text(i));
        }
    }
    add_text(line, "learning_rate");
    add_text(line, "staleness_mean");
    add_text(line, "staleness_max");
    add_text(line, "examples_per_s");
}

/* Notes that the file cannot be written, and closes it: the last line may be incomplete, so no
 * other may follow. */
static void
fail_write(cadre_history_t *self)
{
    self->error = errno;
    cadre_history_close(self);
}

/* Writes a line and its end, so that a reader of the file sees it at once. */
static void
put_line(cadre_history_t *self, const char *line)
{
    if (fprintf(self->file, "%s\n", line) < 0 || fflush(self->file) != 0) {
        fail_write(self);
    }
}

/* Reads the next whole line, without its end. A line without an end is one that a run did not
 * finish writing before it was killed: it counts as none, like one that no run can have written. */
static bool
next_line(FILE *file, char line[CADRE_HISTORY_LINE_SIZE])
{
    char *end = fgets(line, CADRE_HISTORY_LINE_SIZE, file) ? strchr(line, '\n') : NULL;
    if (!end) {
        return false;
    }
    *end = '\0';
    return true;
}

/* Fails with the first column in which two lists of columns differ; 0 where they are equal. */
static int
compare_columns(const char *path, const char *found, const char *wanted)
{
    for (int column = 1; *found || *wanted; column++) {
        size_t here = strcspn(found, ",");
        size_t there = strcspn(wanted, ",");
        if (here != there || strncmp(found, wanted, here) != 0) {
            return cadre_fail(CADRE_ECONFIG,
                              "%s: column %d is \"%.*s\", where this job writes \"%.*s\": rows of "
                              "other columns are not added to it; name another file",
                              path, column, (int)here, found, (int)there, wanted);
        }
        found += here + (found[here] == ',');
        wanted += there + (wanted[there] == ',');
    }
    return 0;
}

/* Checks that the file to which rows are to be added has the columns of this job. An empty file
 * gets them when the first row is written. */
static int
check_columns(cadre_history_t *self)
{
    char found[CADRE_HISTORY_LINE_SIZE];
    char wanted[CADRE_HISTORY_LINE_SIZE];
    if (!next_line(self->file, found)) {
        return 0;
    }
    header_line(self, wanted);
    return compare_columns(self->path, found, wanted);
}

/* Opens the file, empty or, where the run resumes, as it is. */
int
cadre_history_open(cadre_history_t *self, const char *path, const bool columns[CADRE_METRICS],
                   bool resumes)
{
    *self = (cadre_history_t){.path = path, .has_old_rows = resumes};
    memcpy(self->columns, columns, sizeof(self->columns));
    self->file = resumes ? fopen(path, "r+e") : NULL;
    if (!self->file && (!resumes || errno == ENOENT)) {
        self->file = fopen(path, "w+e");
    }
    if (!self->file) {
        return cadre_fail(CADRE_EIO, "%s: %s", path, strerror(errno));
    }

    int status = resumes ? check_columns(self) : 0;
    if (status < 0) {
        cadre_history_close(self);
        return status;
    }

    char line[CADRE_HISTORY_LINE_SIZE];
    header_line(self, line);
    if (!resumes) {
        put_line(self, line);
    }
    return 0;
}

void
cadre_history_close(cadre_history_t *self)
{
    if (self->file) {
        fclose(self->file);
        self->file = NULL;
    }
}

/* Finds the end of the rows that stay before a first row of this progress: those of earlier epochs,
 * and one of the same epoch and step. Takes the training time from the last of them, and gives in
 * `is_there` whether that is the one of the same step. */
static long
find_end(cadre_history_t *self, const cadre_progress_t *progress, bool *is_there)
{
    char line[CADRE_HISTORY_LINE_SIZE];
    long end = ftell(self->file);
    while (!*is_there && next_line(self->file, line)) {
        long long epoch = 0;
        long long step = 0;
        double seconds = 0;
        if (sscanf(line, "%lld,%lld,%lf", &epoch, &step, &seconds) != 3) {
            break;
        }

        *is_there = epoch == progress->epoch && step == progress->step;
        if (epoch >= progress->epoch && !*is_there) {
            break;
        }
        self->seconds_before = seconds;
        end = ftell(self->file);
    }
    return end;
}

/* Removes the old rows that this run writes again, from its first row on. Returns whether the file
 * has this first row already. */
static bool
remove_from(cadre_history_t *self, const cadre_progress_t *progress)
{
    char line[CADRE_HISTORY_LINE_SIZE];
    bool is_there = false;
    rewind(self->file);
    bool has_header = next_line(self->file, line);
    long end = has_header ? find_end(self, progress, &is_there) : 0;
    if (end < 0 || fseek(self->file, end, SEEK_SET) != 0 ||
        ftruncate(fileno(self->file), end) != 0) {
        fail_write(self);
        return false;
    }

    if (!has_header) {
        header_line(self, line);
        put_line(self, line);
    }
    return is_there;
}

/* Writes the row of an epoch. Before the first row of a run that resumes, removes the rows that
 * come again. Does nothing where no file is open. */
void
cadre_history_write(cadre_history_t *self, const cadre_progress_t *progress)
{
    if (self->file && self->has_old_rows) {
        self->has_old_rows = false;
        if (remove_from(self, progress)) {
            return;
        }
    }
    if (!self->file) {
        return;
    }

    char line[CADRE_HISTORY_LINE_SIZE] = "";
    add_number(line, (double)progress->epoch);
    char step[24];
    snprintf(step, sizeof(step), "%lld", (long long)progress->step);
    add_text(line, step);
    add_number(line, self->seconds_before + progress->seconds);
    add_number(line, progress->loss);
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (self->columns[i]) {
            add_number(line, cadre_metrics_value(&progress->metrics, i));
        }
    }
    add_number(line, progress->learning_rate);
    add_number(line, progress->staleness_mean);
    add_number(line, (double)progress->staleness_max);
    add_number(line, progress->rows_per_second);
    put_line(self, line);
}
