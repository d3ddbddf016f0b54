#include "coordinator/cli/terminal/console.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/bounds.h"
#include "common/base/memory.h"
#include "common/base/utf8.h"

enum {
    BAR_COLUMNS = 20,
    BAR_COLUMNS_NARROW = 8,
    WIDE_COLUMNS = 110,
    COLUMNS_DEFAULT = 100,
    DURATION_SIZE = 24
};

void
cadre_console_init(cadre_console_t *self)
{
    *self = (cadre_console_t){.terminal = isatty(STDERR_FILENO) == 1};
}

/* Removes the progress bar: goes back to the start of the terminal's line and erases it. */
void
cadre_console_clear(cadre_console_t *self)
{
    if (self->bar_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        self->bar_shown = false;
    }
}

static void
show_bar(cadre_console_t *self)
{
    fprintf(stderr, "\r\033[K%s", self->bar);
    fflush(stderr);
    self->bar_shown = true;
}

/* Prints a line on stderr, with any bytes replaced that are not printable UTF-8. A progress bar is
 * removed before it and shown again below it. */
void
cadre_console_say(cadre_console_t *self, const char *format, ...)
{
    bool shown = self->bar_shown;
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        return;
    }

    cadre_console_clear(self);
    cadre_auto(cadre_free) char *clean = cadre_calloc((size_t)length + 1, 1);
    cadre_utf8_clean(text, (size_t)length, clean);
    free(text);
    fprintf(stderr, "%s\n", clean);
    if (shown) {
        show_bar(self);
    }

    fflush(stderr);
}

void
cadre_console_bar(cadre_console_t *self, const char *text)
{
    if (self->terminal) {
        snprintf(self->bar, sizeof(self->bar), "%s", text);
        show_bar(self);
    }
}

/* Returns how many columns a line may take: one less than the terminal has, as some wrap a line
 * that fills it. */
int
cadre_console_columns(void)
{
    struct winsize size = {0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col - 1 : COLUMNS_DEFAULT;
}

/* Writes a duration with its two largest units, as "42s", "3m10s" or "2h05m". */
const char *
cadre_duration_text(double seconds, char *text)
{
    long long whole = seconds > 0 && seconds < 1e15 ? (long long)(seconds + 0.5) : 0;
    if (whole < 60) {
        snprintf(text, DURATION_SIZE, "%llds", whole);
    } else if (whole < 3600) {
        snprintf(text, DURATION_SIZE, "%lldm%02llds", whole / 60, whole % 60);
    } else {
        snprintf(text, DURATION_SIZE, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
    }
    return text;
}

/* A text that grows up to CADRE_CONSOLE_LINE_SIZE. */
typedef struct {
    char *text;
    size_t length;
} line_t;

/* Appends a formatted text to the line, as much of it as fits. */
static void __attribute__((format(printf, 2, 3))) append(line_t *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(line->text + line->length, CADRE_CONSOLE_LINE_SIZE - line->length, format,
                          arguments);
    va_end(arguments);
    if (added > 0) {
        line->length = cadre_min_u64(line->length + (size_t)added, CADRE_CONSOLE_LINE_SIZE - 1);
    }
}

/* Appends the speed in examples (rows) per second: "812k ex/s". */
static void
append_speed(line_t *line, double speed)
{
    if (speed < 10000) {
        append(line, "  %.0f ex/s", speed);
    } else if (speed < 1e7) {
        append(line, "  %.0fk ex/s", speed / 1e3);
    } else {
        append(line, "  %.0fM ex/s", speed / 1e6);
    }
}

static int
percent(const cadre_progress_t *progress)
{
    return (int)(100 * progress->epoch_fraction);
}

/* Writes the progress as a bar for a terminal: "[####....] epoch 3/10 41% step 18204 ...". What is
 * not known is left out. */
const char *
cadre_progress_bar(const cadre_progress_t *progress, int columns, char *text)
{
    char duration[DURATION_SIZE];
    line_t line = {.text = text};
    double fraction = progress->steps > 0 ? (double)progress->step / (double)progress->steps : 0;
    int width = columns >= WIDE_COLUMNS ? BAR_COLUMNS : BAR_COLUMNS_NARROW;
    int filled = cadre_min_int((int)(width * fraction), width);

    text[0] = '\0';
    append(&line, "[%.*s%.*s]", filled, "####################", width - filled,
           "....................");
    append(&line, "  epoch %lld/%lld  %d%%  step %lld", (long long)progress->epoch,
           (long long)progress->epochs, percent(progress), (long long)progress->step);
    if (isfinite(progress->loss)) {
        append(&line, "  loss %.4f", progress->loss);
    }

    append_speed(&line, progress->rows_per_second);
    if (progress->staleness_max > 0) {
        append(&line, "  stale max %llu", (unsigned long long)progress->staleness_max);
    }

    append(&line, "  workers %d/%lld", progress->workers, (long long)progress->workers_wanted);
    if (progress->checkpoint_age_s >= 0) {
        append(&line, "  ckpt %s ago", cadre_duration_text(progress->checkpoint_age_s, duration));
    }
    if (progress->seconds_left >= 0) {
        append(&line, "  eta %s", cadre_duration_text(progress->seconds_left, duration));
    }
    /* A bar that wraps to a second line could not be removed again. */
    if (columns > 0 && line.length > (size_t)columns) {
        text[columns] = '\0';
    }

    return text;
}

/* Appends what the evaluation found: accuracy and loss, then the other metrics that the job asks
 * for. */
static void
append_metrics(line_t *line, const cadre_metrics_t *metrics)
{
    static const cadre_metric_t first[] = {CADRE_METRIC_ACCURACY, CADRE_METRIC_LOSS};
    for (size_t i = 0; i < CADRE_COUNT_OF(first); i++) {
        if (metrics->known[first[i]]) {
            append(line, " %s=%.4f", cadre_metric_text(first[i]), metrics->values[first[i]]);
        }
    }
    for (cadre_metric_t i = 0; i < CADRE_METRICS; i++) {
        if (cadre_metric_is_extra(i) && metrics->known[i]) {
            append(line, " %s=%.4f", cadre_metric_text(i), metrics->values[i]);
        }
    }
}

/* Writes the progress as a line for a log file: "epoch=3/10 progress=41% ...". What is not known is
 * left out. */
const char *
cadre_progress_line(const cadre_progress_t *progress, bool epoch_end, char *text)
{
    line_t line = {.text = text};
    text[0] = '\0';
    append(&line, "epoch=%lld/%lld progress=%d%% step=%lld/%lld", (long long)progress->epoch,
           (long long)progress->epochs, epoch_end ? 100 : percent(progress),
           (long long)progress->step, (long long)progress->steps);
    if (isfinite(progress->loss)) {
        append(&line, " loss=%.4f", progress->loss);
    }
    append_metrics(&line, &progress->metrics);

    append(&line, " examples_per_s=%.0f stale_max=%llu workers=%d/%lld", progress->rows_per_second,
           (unsigned long long)progress->staleness_max, progress->workers,
           (long long)progress->workers_wanted);
    if (progress->checkpoint_age_s >= 0) {
        append(&line, " checkpoint_age_s=%.0f", progress->checkpoint_age_s);
    }
    if (progress->seconds_left >= 0) {
        append(&line, " eta_s=%.0f", progress->seconds_left);
    }

    return text;
}
