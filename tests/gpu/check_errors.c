/* What fails, fails with the right status, and the device goes on. */
#include <string.h>

#include "common/base/assert.h"
#include "common/base/memory.h"
#include "common/base/status.h"
#include "tests/gpu/gpu_check.h"

/* A program that always works, to see whether the slot does. */
static void
check_alive(gpu_check_t *self, cadre_slot_t *slot, const char *after)
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("alive");
    cadre_node_t x = gpu_argument(&one, p, gpu_random(CADRE_F32, (int64_t[]){4}, 1, 1, 2));
    cadre_op_result(p, "y", cadre_op_add(p, x, x));
    gpu_case_init(&one, p);
    gpu_outcome_t outcome;
    int status = gpu_case_run(&one, slot, 1, &outcome);
    const float *in = one.arguments[0].data;
    gpu_check_that(self, status == 0, "after %s: %s", after, cadre_error_text());
    if (status == 0) {
        const float *out = outcome.results[0].data;
        gpu_check_that(self, out[3] == 2 * in[3], "after %s: %g + %g is %g", after, (double)in[3],
                       (double)in[3], (double)out[3]);
    }
    gpu_outcome_fini(&one, &outcome);
    gpu_case_fini(&one);
}

/* Labels that are an argument, or that the program makes of one: only the device sees those. */
static void
check_label(gpu_check_t *self, cadre_slot_t *slot, int32_t label, bool computed)
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("labels");
    cadre_node_t x = gpu_argument(&one, p, gpu_random(CADRE_F32, (int64_t[]){300, 10}, 2, -1, 1));
    cadre_tensor_t tensor = gpu_random(CADRE_I32, (int64_t[]){300}, 1, 0, 9.9F);
    ((int32_t *)tensor.data)[257] = label;
    cadre_node_t labels = gpu_argument(&one, p, tensor);
    if (computed) {
        labels = cadre_op_cast(p, cadre_op_cast(p, labels, CADRE_F32), CADRE_I32);
    }
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_xent(p, x, labels));
    cadre_node_t gradient;
    cadre_op_gradient(p, loss, &x, 1, &gradient);
    cadre_op_result(p, "gradient", gradient);
    gpu_case_init(&one, p);
    gpu_outcome_t outcome;
    int status = gpu_case_run(&one, slot, 1, &outcome);
    bool right = label >= 0 && label < 10;
    gpu_check_that(self, status == (right ? 0 : CADRE_EDATA), "label %d of 10%s: %d, %s", label,
                   computed ? ", computed" : "", status, cadre_error_text());
    gpu_check_that(self, right || computed || strstr(cadre_error_text(), "in row 257"),
                   "label %d: %s", label, cadre_error_text());
    gpu_outcome_fini(&one, &outcome);
    gpu_case_fini(&one);
    check_alive(self, slot, "a label");
}

static void
check_position(gpu_check_t *self, cadre_slot_t *slot, int32_t position, bool computed)
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("positions");
    cadre_node_t table = gpu_argument(&one, p, gpu_random(CADRE_F32, (int64_t[]){50, 8}, 2, -1, 1));
    cadre_tensor_t tensor = gpu_random(CADRE_I32, (int64_t[]){40}, 1, 0, 49.9F);
    ((int32_t *)tensor.data)[33] = position;
    cadre_node_t index = gpu_argument(&one, p, tensor);
    if (computed) {
        index = cadre_op_cast(p, cadre_op_cast(p, index, CADRE_F32), CADRE_I32);
    }
    cadre_node_t loss = cadre_op_mean_all(p, cadre_op_square(p, cadre_op_take(p, table, index)));
    cadre_node_t gradient;
    cadre_op_gradient(p, loss, &table, 1, &gradient);
    cadre_op_result(p, "gradient", gradient);
    gpu_case_init(&one, p);
    gpu_outcome_t outcome;
    int status = gpu_case_run(&one, slot, 1, &outcome);
    bool right = position >= 0 && position < 50;
    gpu_check_that(self, status == (right ? 0 : CADRE_EDATA), "position %d of 50%s: %d, %s",
                   position, computed ? ", computed" : "", status, cadre_error_text());
    gpu_outcome_fini(&one, &outcome);
    gpu_case_fini(&one);
    check_alive(self, slot, "a position");
}

static void
check_indexes(gpu_check_t *self)
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    static const int32_t labels[] = {0, 9, 10, -1, 1 << 24, -(1 << 24)};
    static const int32_t positions[] = {0, 49, 50, -1, 1 << 24, -(1 << 24)};
    for (size_t i = 0; i < CADRE_COUNT_OF(labels); i++) {
        for (int computed = 0; computed < 2; computed++) {
            check_label(self, slot, labels[i], computed);
            check_position(self, slot, positions[i], computed);
        }
    }
    cadre_slot_close(&slot);
}

/* The mean of one number in rows * columns copies. */
static int
run_large(cadre_slot_t *slot, int64_t rows, int64_t columns)
{
    gpu_case_t one = {0};
    cadre_program_t *p = cadre_program_new("large");
    cadre_node_t x = gpu_argument(&one, p, gpu_random(CADRE_F32, (int64_t[]){1}, 1, 0, 1));
    cadre_dim_t dims[] = {cadre_dim(rows), cadre_dim(columns)};
    cadre_node_t y = cadre_op_broadcast(p, x, dims, 2);
    cadre_op_result(p, "y", cadre_op_mean_all(p, cadre_op_mul(p, y, y)));
    gpu_case_init(&one, p);
    gpu_outcome_t outcome;
    int status = gpu_case_run(&one, slot, 1, &outcome);
    gpu_outcome_fini(&one, &outcome);
    gpu_case_fini(&one);
    return status;
}

static void
check_limit(gpu_check_t *self)
{
    cadre_slot_options_t options = {.memory_size_max = 1 << 20};
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, &options, &slot) == 0);
    int status = run_large(slot, 1 << 11, 1 << 8);
    gpu_check_that(self, status == CADRE_ENOMEMORY, "beyond its limit: %d, %s", status,
                   cadre_error_text());
    gpu_check_that(self, run_large(slot, 1 << 6, 1 << 8) == 0, "below its limit: %s",
                   cadre_error_text());
    check_alive(self, slot, "a limit");
    cadre_slot_close(&slot);
}

/* More than any device has: four terabytes. */
static void
check_out_of_memory(gpu_check_t *self)
{
    cadre_slot_t *slot = NULL;
    cadre_assert(cadre_slot_open(self->device, NULL, &slot) == 0);
    check_alive(self, slot, "nothing");
    check_alive(self, slot, "nothing");
    int status = run_large(slot, 1 << 20, 1 << 20);
    gpu_check_that(self, status == CADRE_ENOMEMORY, "out of memory: %d, %s", status,
                   cadre_error_text());
    check_alive(self, slot, "no memory");
    cadre_slot_close(&slot);
}

void
gpu_check_errors(gpu_check_t *self)
{
    check_indexes(self);
    check_limit(self);
    check_out_of_memory(self);
}
