/*
 * label - checks which numbers of a file may be labels, and turns them into classes or values.
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
    int64_t classes;      /* number of classes: labels must be below it */
    int64_t classes_seen; /* for "class": the largest label so far, plus 1 */
    double negative;      /* for "binary": the number that this file writes for class 0, 0 or -1; 1
                             before the first such label */
} cadre_label_rule_t;

void cadre_label_rule_init(cadre_label_rule_t *self, const cadre_data_spec_t *spec);

/* Turns a number of the file into a label. Fails with CADRE_EDATA and the reason, and leaves the
 * rule as it is, when the number is no label. */
int cadre_label_rule_read(cadre_label_rule_t *self, double number, cadre_label_t *out);

/* Returns the number of classes, as cadre_source_info_t tells it. */
int64_t cadre_label_rule_classes(const cadre_label_rule_t *self, const cadre_data_spec_t *spec);

#endif
