#include "worker/device/cuda/indexes.h"

#include <inttypes.h>

#include "common/status.h"

/* The numbers of input `input` of a step, if they are an argument; otherwise NULL. */
static const int32_t *
argument_data(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step,
              int input)
{
    const cadre_plan_value_t *value = &plan->values[step->inputs[input]];
    const cadre_plan_value_t *root = &plan->values[value->root];
    return root->place.kind == CADRE_PLACE_ARGUMENT ? run->arguments[root->place.index].data : NULL;
}

/* All numbers of the input lie in least .. end - 1. */
static int
check_range(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step,
            int input, int64_t least, int64_t end)
{
    const int32_t *data = argument_data(plan, run, step, input);
    int64_t count = plan->values[step->inputs[input]].count;
    for (int64_t i = 0; data && i < count; i++) {
        if (data[i] < least || data[i] >= end) {
            return cadre_fail(
                CADRE_EDATA, "%s: index %" PRId32 " at %" PRId64 " is not in %" PRId64 "..%" PRId64,
                cadre_op_text(step->op, step->attributes[0]), data[i], i, least, end - 1);
        }
    }
    return 0;
}

/* Labels are told as the CPU tells them. */
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

static int
check_step(const cadre_plan_t *plan, const cadre_slot_run_t *run, const cadre_plan_step_t *step)
{
    switch ((int)step->op) {
    case CADRE_OP_XENT:
    case CADRE_OP_XENT_GRAD:
        return check_labels(plan, run, step);
    default:
        (void)check_range;
        return 0;
    }
}

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
