/*
 * label - what numbers are labels, and what they become.
 *
 * Owner:   the reader of one file.
 * Thread:  one at a time.
 */
#ifndef CADRE_WORKER_DATA_LABEL_H
#define CADRE_WORKER_DATA_LABEL_H

#include <stdint.h>

#include "common/spec/data_spec.h"

typedef union {
    int32_t number; /* "class" */
    float value;    /* "binary", "value" */
} cadre_label_t;

typedef struct {
    cadre_label_kind_t kind;
    int64_t classes;      /* labels are below it */
    int64_t classes_seen; /* "class": the largest label + 1 */
    double negative;      /* "binary": how this file writes a 0, as 0 or as -1; 1 until it did */
} cadre_label_rule_t;

void cadre_label_rule_init(cadre_label_rule_t *self, const cadre_data_spec_t *spec);

/* Turns a number of the file into a label. CADRE_EDATA with the reason when it is none; then the
 * rule has not changed. */
int cadre_label_rule_read(cadre_label_rule_t *self, double number, cadre_label_t *out);

/* Number of classes, as cadre_source_info_t has it. */
int64_t cadre_label_rule_classes(const cadre_label_rule_t *self, const cadre_data_spec_t *spec);

#endif
