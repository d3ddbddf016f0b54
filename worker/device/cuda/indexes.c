#include "worker/device/cuda/indexes.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/status.h"
#include "worker/device/cuda/kernels.h"

/* Returns the numbers of input `input` of a step if it is an argument of the program, else NULL:
 * computed indexes are on the device only. */
static const int32_t *
argument_data(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step,
              int input)
{
    const cadre_plan_value_t *value = &plan->values[step->inputs[input]];
    const cadre_plan_value_t *root = &plan->values[value->root];
    return root->place.kind == CADRE_PLACE_ARGUMENT ? run->arguments[root->place.index].data : NULL;
}

/* Fails with CADRE_EDATA unless all positions of the step (its input 1) are in least .. end - 1. */
static int
check_range(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step,
            int64_t least, int64_t end)
{
    const int32_t *data = argument_data(plan, run, step, 1);
    const cadre_plan_value_t *positions = &plan->values[step->inputs[1]];
    for (int64_t i = 0; data && i < positions->count; i++) {
        if (data[i] >= least && data[i] < end) {
            continue;
        }

        /* As the CPU does, name the row of the batch where take has positions [B, ..]. */
        char place[64];
        int64_t width = positions->count / (positions->rank > 0 ? positions->shape[0] : 1);
        if (step->op == CADRE_OP_TAKE && positions->rank > 1) {
            snprintf(place, sizeof(place), "in row %" PRId64 " at %" PRId64, i / width, i % width);
        } else {
            snprintf(place, sizeof(place), "at %" PRId64, i);
        }
        return cadre_fail(CADRE_EDATA, "%s: index %" PRId32 " %s is not in %" PRId64 "..%" PRId64,
                          cadre_op_text(step->op, 0), data[i], place, least, end - 1);
    }
    return 0;
}

/* Checks labels, with the CPU's error texts. */
static int
check_labels(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step)
{
    const cadre_plan_value_t *logits = &plan->values[step->inputs[0]];
    int64_t size = logits->shape[logits->rank - 1];
    int64_t rows = plan->values[step->inputs[1]].count;
    const int32_t *labels = argument_data(plan, run, step, 1);
    for (int64_t row = 0; labels && row < rows; row++) {
        if (labels[row] < 0 || labels[row] >= size) {
            return cadre_fail(CADRE_EDATA,
                              "cross entropy: label %" PRId32 " in row %" PRId64
                              " is not in 0..%" PRId64,
                              labels[row], row, size - 1);
        }
    }
    return 0;
}

/* Fails with CADRE_EDATA unless bags follow each other from the first entry on and their entries
 * name rows of the table, which has `rows`, or are padding (-1). Offsets and entries that the
 * program computes are on the device only: there the kernels check them. */
static int
check_bags(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step,
           int64_t rows)
{
    const int32_t *offsets = argument_data(plan, run, step, 2);
    int64_t bags = plan->values[step->inputs[2]].count;
    int64_t entries = plan->values[step->inputs[1]].count;
    int64_t low = 0;
    for (int64_t i = 0; offsets && i < bags; i++) {
        int64_t high = i == 0 ? 0 : entries;
        if (offsets[i] < low || offsets[i] > high) {
            return cadre_fail(CADRE_EDATA,
                              "%s: offset %" PRId32 " of bag %" PRId64 " is not in %" PRId64
                              "..%" PRId64,
                              cadre_op_text(step->op, 0), offsets[i], i, low, high);
        }
        low = offsets[i];
    }
    return check_range(plan, run, step, -1, rows);
}

/* Checks the labels, positions or bags that a step reads, as far as they are arguments of the run.
 * Which rows there are depends on the op: those of input 0, those of the output, or those of the
 * table (input 3 of a gradient of weights). */
static int
check_step(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step)
{
    if (step->op == CADRE_STEP_CHAIN) { /* its links are functions of one element */
        return 0;
    }

    const cadre_plan_value_t *out = &plan->values[step->output];
    switch (cadre_op_info(step->op)->indexes) {
    case CADRE_INDEXES_NONE:
        return 0;
    case CADRE_INDEXES_LABELS:
        return check_labels(plan, run, step);
    case CADRE_INDEXES_ROWS:
        return check_range(plan, run, step, 0, plan->values[step->inputs[0]].shape[0]);
    case CADRE_INDEXES_RESULT_ROWS:
        return check_range(plan, run, step, 0, out->shape[0]);
    case CADRE_INDEXES_BAGS:
        return check_bags(plan, run, step, plan->values[step->inputs[0]].shape[0]);
    case CADRE_INDEXES_RESULT_BAGS:
        return check_bags(plan, run, step,
                          step->attributes[CADRE_BAG_GRAD_OF_WEIGHTS]
                              ? plan->values[step->inputs[3]].shape[0]
                              : out->shape[0]);
    }
    return 0;
}

/* Checks all indexes that are arguments of the run, on the host, before a kernel uses them. */
int
cadre_cuda_check_indexes(const cadre_plan_t *plan, const cadre_slot_run_t *run)
{
    for (int at = 0; at < plan->step_count; at++) {
        int status = check_step(plan, run, &plan->steps[at]);
        if (status < 0) {
            return status;
        }
    }
    return 0;
}

/* Fails because of an index that the program has computed. `fault` names the row of the batch for a
 * take, from CADRE_CUDA_FAULT_ROW up. */
int
cadre_cuda_refuse_computed(int32_t fault)
{
    static const char what[] = "an index that the program computes is out of range";
    if (fault < CADRE_CUDA_FAULT_ROW) {
        return cadre_fail(CADRE_EDATA, "%s", what);
    }
    return cadre_fail(CADRE_EDATA, "take: %s, in row %d", what,
                      (int)(fault - CADRE_CUDA_FAULT_ROW));
}
