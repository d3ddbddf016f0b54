/*
 * metrics_text - writes metrics as text for Prometheus (text format 0.0.4).
 *
 * Owner:   the actor whose metrics they are.
 * Thread:  its owner's.
 *
 * A family comes first (its HELP and TYPE lines), then its samples, each behind its labels:
 *
 *     cadre_metrics_text_family(&text, "cadre_ps_updates_total", CADRE_METRIC_COUNTER, "...");
 *     cadre_metrics_text_label(&text, "result", "applied");
 *     cadre_metrics_text_count(&text, 42);
 *
 * Names of families and labels are literals in our code; values of labels may be any text. Callers
 * bound the number of samples: no label may have values without a limit of our own, such as names
 * that peers choose.
 */
#ifndef CADRE_COMMON_BASE_METRICS_TEXT_H
#define CADRE_COMMON_BASE_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CADRE_METRICS_NAME_SIZE = 96, /* of a family, with the 0 */
    /* Bytes of the labels of a sample; a label that does not fit is left out. */
    CADRE_METRICS_LABELS_SIZE = 640,
};

typedef enum {
    CADRE_METRIC_COUNTER, /* only goes up; its name ends with _total */
    CADRE_METRIC_GAUGE,
    CADRE_METRIC_HISTOGRAM,
} cadre_metric_type_t;

/* A struct of zeros is an empty text; ended with cadre_metrics_text_fini, unless
 * cadre_metrics_text_take was called. */
typedef struct {
    char *bytes;
    size_t size_bytes; /* without the 0 */
    size_t capacity;
    char family[CADRE_METRICS_NAME_SIZE];
    char labels[CADRE_METRICS_LABELS_SIZE]; /* labels of the next sample, without braces */
    size_t labels_size;
} cadre_metrics_text_t;

void cadre_metrics_text_fini(cadre_metrics_text_t *self);

/* Returns the text, which the caller frees, and its size without the 0; the struct is empty again.
 */
char *cadre_metrics_text_take(cadre_metrics_text_t *self, size_t *size_bytes);

/* Begins a family of metrics. All its samples follow before another family begins. */
void cadre_metrics_text_family(cadre_metrics_text_t *self, const char *name,
                               cadre_metric_type_t type, const char *help);

/* Add a label to the next sample. One that does not fit is left out. */
void cadre_metrics_text_label(cadre_metrics_text_t *self, const char *name, const char *value);
void cadre_metrics_text_label_number(cadre_metrics_text_t *self, const char *name, uint64_t value);

/* Write a sample of the family, with the labels that were added since the last sample. */
void cadre_metrics_text_count(cadre_metrics_text_t *self, uint64_t value);
void cadre_metrics_text_number(cadre_metrics_text_t *self, double value);

/* Writes a histogram. `counts` has one entry for each bucket, and one more than `bounds` for values
 * above the last bound; the cumulative counts that Prometheus wants are computed here. */
void cadre_metrics_text_histogram(cadre_metrics_text_t *self, const uint64_t *bounds,
                                  const uint64_t *counts, size_t bound_count, uint64_t sum);

/* Write a family of one sample without labels. */
void cadre_metrics_text_counter(cadre_metrics_text_t *self, const char *name, uint64_t value,
                                const char *help);
void cadre_metrics_text_gauge(cadre_metrics_text_t *self, const char *name, double value,
                              const char *help);

/* Writes cadre_build_info: role and build of this process. */
void cadre_metrics_text_build(cadre_metrics_text_t *self, const char *role, const char *build);

/* Writes cadre_transport_info: how connections are protected, as cadre_security_transport tells. */
void cadre_metrics_text_transport(cadre_metrics_text_t *self, const char *role,
                                  const char *transport);

/* Writes cadre_keys_unreadable: whether the folder of keys cannot be read
 * (cadre_keyring_unreadable). */
void cadre_metrics_text_keys(cadre_metrics_text_t *self, const char *role, bool unreadable);

#endif
