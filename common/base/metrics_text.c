#include "common/base/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/limits.h"
#include "common/base/memory.h"

enum { GROWTH_MIN = 4096, LINE_SIZE = CADRE_METRICS_NAME_SIZE + CADRE_METRICS_LABELS_SIZE + 96 };

void
cadre_metrics_text_fini(cadre_metrics_text_t *self)
{
    free(self->bytes);
    *self = (cadre_metrics_text_t){.bytes = NULL};
}

char *
cadre_metrics_text_take(cadre_metrics_text_t *self, size_t *size_bytes)
{
    char *bytes = self->bytes ? self->bytes : cadre_strdup("");
    *size_bytes = self->size_bytes;
    *self = (cadre_metrics_text_t){.bytes = NULL};
    return bytes;
}

/* --- bytes --- */

/* Appends bytes to the text, which grows as needed and always ends with a 0 that its size does not
 * count. */
static void
append(cadre_metrics_text_t *self, const char *bytes, size_t size_bytes)
{
    if (self->size_bytes + size_bytes + 1 > self->capacity) {
        self->capacity = 2 * self->capacity + size_bytes + GROWTH_MIN;
        self->bytes = cadre_realloc(self->bytes, self->capacity, 1);
    }
    memcpy(self->bytes + self->size_bytes, bytes, size_bytes);
    self->size_bytes += size_bytes;
    self->bytes[self->size_bytes] = '\0';
}

/* Appends a formatted line; one of LINE_SIZE bytes or more is cut. */
static void __attribute__((format(printf, 2, 3)))
append_line(cadre_metrics_text_t *self, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (size > 0) {
        append(self, line, (size_t)size < sizeof(line) ? (size_t)size : sizeof(line) - 1);
    }
}

/* --- families and labels --- */

/* Begins a metric family of Prometheus: writes its HELP and TYPE lines, and keeps its name for the
 * samples that follow. */
void
cadre_metrics_text_family(cadre_metrics_text_t *self, const char *name, cadre_metric_type_t type,
                          const char *help)
{
    static const char *const types[] = {[CADRE_METRIC_COUNTER] = "counter",
                                        [CADRE_METRIC_GAUGE] = "gauge",
                                        [CADRE_METRIC_HISTOGRAM] = "histogram"};
    snprintf(self->family, sizeof(self->family), "%s", name);
    append_line(self, "# HELP %s %s\n", name, help);
    append_line(self, "# TYPE %s %s\n", name, types[type]);
}

/* Returns how a byte is written in the value of a label: as it is, or escaped. */
static const char *
escaped(const char *byte, size_t *size_bytes)
{
    *size_bytes = 2;
    switch (*byte) {
    case '\\':
        return "\\\\";
    case '"':
        return "\\\"";
    case '\n':
        return "\\n";
    default:
        *size_bytes = 1;
        return byte;
    }
}

/* Adds a label to the next sample, its value escaped. A label that does not fit is left out. */
void
cadre_metrics_text_label(cadre_metrics_text_t *self, const char *name, const char *value)
{
    char label[CADRE_METRICS_LABELS_SIZE];
    int head = snprintf(label, sizeof(label), "%s%s=\"", self->labels_size ? "," : "", name);
    size_t size_bytes = (size_t)head;
    for (const char *byte = value; *byte; byte++) {
        size_t more = 0;
        const char *text = escaped(byte, &more);
        if (size_bytes + more + 2 > sizeof(label)) { /* 2: the closing quote and the 0 */
            return;
        }
        memcpy(label + size_bytes, text, more);
        size_bytes += more;
    }

    label[size_bytes++] = '"';
    if (self->labels_size + size_bytes < sizeof(self->labels)) {
        memcpy(self->labels + self->labels_size, label, size_bytes);
        self->labels_size += size_bytes;
        self->labels[self->labels_size] = '\0';
    }
}

void
cadre_metrics_text_label_number(cadre_metrics_text_t *self, const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    cadre_metrics_text_label(self, name, text);
}

/* --- samples --- */

/* Clears the labels, which belong to one sample only. */
static void
end_sample(cadre_metrics_text_t *self)
{
    self->labels_size = 0;
    self->labels[0] = '\0';
}

/* Writes "name" or "name{labels}", and a space. */
static void
begin_sample(cadre_metrics_text_t *self, const char *suffix)
{
    if (self->labels_size > 0) {
        append_line(self, "%s%s{%s} ", self->family, suffix, self->labels);
    } else {
        append_line(self, "%s%s ", self->family, suffix);
    }
}

void
cadre_metrics_text_count(cadre_metrics_text_t *self, uint64_t value)
{
    begin_sample(self, "");
    append_line(self, "%" PRIu64 "\n", value);
    end_sample(self);
}

void
cadre_metrics_text_number(cadre_metrics_text_t *self, double value)
{
    begin_sample(self, "");
    append_line(self, "%.15g\n", value);
    end_sample(self);
}

static void
append_bucket(cadre_metrics_text_t *self, const char *bound, uint64_t count)
{
    append_line(self, "%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", self->family, self->labels,
                self->labels_size ? "," : "", bound, count);
}

/* Writes the buckets, sum and count of a histogram. `counts` has one entry more than `bounds`, for
 * values above the last bound; Prometheus wants each bucket to count the buckets below it, too. */
void
cadre_metrics_text_histogram(cadre_metrics_text_t *self, const uint64_t *bounds,
                             const uint64_t *counts, size_t bound_count, uint64_t sum)
{
    uint64_t total = 0;
    for (size_t i = 0; i < bound_count; i++) {
        char bound[24];
        total += counts[i];
        snprintf(bound, sizeof(bound), "%" PRIu64, bounds[i]);
        append_bucket(self, bound, total);
    }

    total += counts[bound_count];
    append_bucket(self, "+Inf", total);
    begin_sample(self, "_sum");
    append_line(self, "%" PRIu64 "\n", sum);
    begin_sample(self, "_count");
    append_line(self, "%" PRIu64 "\n", total);
    end_sample(self);
}

/* --- families of one sample --- */

void
cadre_metrics_text_counter(cadre_metrics_text_t *self, const char *name, uint64_t value,
                           const char *help)
{
    cadre_metrics_text_family(self, name, CADRE_METRIC_COUNTER, help);
    cadre_metrics_text_count(self, value);
}

void
cadre_metrics_text_gauge(cadre_metrics_text_t *self, const char *name, double value,
                         const char *help)
{
    cadre_metrics_text_family(self, name, CADRE_METRIC_GAUGE, help);
    cadre_metrics_text_number(self, value);
}

/* Writes a metric that is always 1 and tells in its labels which role and build runs. */
void
cadre_metrics_text_build(cadre_metrics_text_t *self, const char *role, const char *build)
{
    cadre_metrics_text_family(self, "cadre_build_info", CADRE_METRIC_GAUGE,
                              "What runs here; always 1.");
    cadre_metrics_text_label(self, "role", role);
    cadre_metrics_text_label(self, "version", build);
    cadre_metrics_text_label_number(self, "protocol", CADRE_PROTOCOL_VERSION);
    cadre_metrics_text_count(self, 1);
}

/* Writes a metric that is always 1 and tells in its labels how connections are protected. */
void
cadre_metrics_text_transport(cadre_metrics_text_t *self, const char *role, const char *transport)
{
    cadre_metrics_text_family(self, "cadre_transport_info", CADRE_METRIC_GAUGE,
                              "How connections are guarded; always 1.");
    cadre_metrics_text_label(self, "role", role);
    cadre_metrics_text_label(self, "transport", transport);
    cadre_metrics_text_count(self, 1);
}

/* Writes a gauge: 1 while the folder of allowed keys cannot be read, else 0. */
void
cadre_metrics_text_keys(cadre_metrics_text_t *self, const char *role, bool unreadable)
{
    cadre_metrics_text_family(self, "cadre_keys_unreadable", CADRE_METRIC_GAUGE,
                              "Whether the allowed keys cannot be read as a whole: none is added "
                              "until they can.");
    cadre_metrics_text_label(self, "role", role);
    cadre_metrics_text_count(self, unreadable);
}
