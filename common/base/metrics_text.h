/*
 * metrics_text - figures as Prometheus reads them (text format 0.0.4).
 *
 * Owner:   who tells the figures.
 * Thread:  its owner's.
 *
 * A family comes first (its HELP and TYPE lines), then its samples, each behind its labels:
 *
 *     cadre_metrics_text_family(&text, "cadre_ps_updates_total", CADRE_METRIC_COUNTER, "...");
 *     cadre_metrics_text_label(&text, "result", "applied");
 *     cadre_metrics_text_count(&text, 42);
 *
 * Names of families and labels are literals of ours; values of labels may be any text. How many
 * samples there may be is for the callers to say: no label has values that only peers bound.
 */
#ifndef CADRE_COMMON_BASE_METRICS_TEXT_H
#define CADRE_COMMON_BASE_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_METRICS_NAME_SIZE = 96,    /* of a family, with the 0 */
    CADRE_METRICS_LABELS_SIZE = 640, /* of the labels of a sample: longer ones are cut */
};

typedef enum {
    CADRE_METRIC_COUNTER, /* only goes up; its name ends with _total */
    CADRE_METRIC_GAUGE,
    CADRE_METRIC_HISTOGRAM,
} cadre_metric_type_t;

/* Zeroed at its start; ended with _fini, unless _take was called. */
typedef struct {
    char *bytes;
    size_t size_bytes; /* without the 0 */
    size_t capacity;
    char family[CADRE_METRICS_NAME_SIZE];
    char labels[CADRE_METRICS_LABELS_SIZE]; /* of the next sample, without braces */
    size_t labels_size;
} cadre_metrics_text_t;

void cadre_metrics_text_fini(cadre_metrics_text_t *self);

/* The text, which the caller frees, and its size without the 0; the struct is empty again. */
char *cadre_metrics_text_take(cadre_metrics_text_t *self, size_t *size_bytes);

/* Begins a family: its samples follow, and no other's before they are all there. */
void cadre_metrics_text_family(cadre_metrics_text_t *self, const char *name,
                               cadre_metric_type_t type, const char *help);

/* A label of the next sample. One that does not fit is left out. */
void cadre_metrics_text_label(cadre_metrics_text_t *self, const char *name, const char *value);
void cadre_metrics_text_label_number(cadre_metrics_text_t *self, const char *name, uint64_t value);

/* A sample with the labels since the last one. */
void cadre_metrics_text_count(cadre_metrics_text_t *self, uint64_t value);
void cadre_metrics_text_number(cadre_metrics_text_t *self, double value);

/* A sample of a histogram: `counts` has one entry more than `bounds`, for what is larger than the
 * last; they are of the buckets alone, and are added up here. */
void cadre_metrics_text_histogram(cadre_metrics_text_t *self, const uint64_t *bounds,
                                  const uint64_t *counts, size_t bound_count, uint64_t sum);

/* A family of one sample without labels. */
void cadre_metrics_text_counter(cadre_metrics_text_t *self, const char *name, uint64_t value,
                                const char *help);
void cadre_metrics_text_gauge(cadre_metrics_text_t *self, const char *name, double value,
                              const char *help);

/* cadre_build_info: what runs here. */
void cadre_metrics_text_build(cadre_metrics_text_t *self, const char *role, const char *build);

/* cadre_transport_info: how its connections are guarded, as cadre_security_transport says. */
void cadre_metrics_text_transport(cadre_metrics_text_t *self, const char *role,
                                  const char *transport);

/* cadre_keys_unreadable: what cadre_keyring_unreadable says. */
void cadre_metrics_text_keys(cadre_metrics_text_t *self, const char *role, bool unreadable);

#endif
