/*
 * id_origin - from which number of an argument an id was computed, for error texts: what a program
 * makes of a number that is no id says nothing of the number.
 *
 * Owner:   nobody: it has no state. Thread: any.
 */
#ifndef CADRE_WORKER_SLOT_ID_ORIGIN_H
#define CADRE_WORKER_SLOT_ID_ORIGIN_H

#include <cadre/tensor.h>

#include "common/graph/row_sets.h"
#include "worker/device/device.h"

/* A number of an argument. */
typedef struct {
    int argument; /* of the program */
    int64_t at;   /* its element */
    /* The program takes numbers from there on for no ids: where one is not below it, another that
     * is below 0 has its place. 0: it has no such limit. */
    int64_t limit;
} cadre_id_origin_t;

/* Finds the number of an argument that element `index` of `node` was computed from, through
 * operations that take elements one by one or only move them. symbol_values[i] is what symbol i of
 * the program stands for. False when it was computed in another way, or of no argument. */
bool cadre_id_origin_find(const cadre_program_t *program, const int64_t *symbol_values,
                          int32_t node, int64_t index, cadre_id_origin_t *out);

/* Says instead of this thread's error text, which says that one of the `ids` of a lookup in the
 * run's program is none of its `rows`, from which number the first such id was computed and which
 * numbers are ids, where it is found. Returns `status`. */
int cadre_id_origin_explain(const cadre_slot_run_t *run, const cadre_row_lookup_t *lookup,
                            const cadre_tensor_t *ids, int64_t rows, int status);

#endif
