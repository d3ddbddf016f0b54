/* The native functions of the conformance tests: see functions.h. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "tests/conformance/functions_invocation.h"

static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return push_all(invocation, 1.0f);
}

static int
add_steps(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *steps = NULL;
    int status = find(invocation, "steps", &steps);
    for (int64_t i = 0; status == 0 && i < *(const int64_t *)steps->data; i++) {
        status = push_all(invocation, 1.0f);
        if (status == 0) {
            status = cadre_invocation_flush(invocation);
        }
    }
    return status;
}

static int
add_batch(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *x = NULL;
    int status = find(invocation, "x", &x);
    float sum = 0;
    for (int64_t i = 0; status == 0 && i < cadre_tensor_count(x); i++) {
        sum += ((const float *)x->data)[i];
    }
    return status == 0 ? push_all(invocation, sum) : status;
}

/* Column 0 of row `row` of a batch. */
static float
column(const cadre_tensor_t *x, int64_t row)
{
    return ((const float *)x->data)[row * x->shape[1]];
}

static int
visit(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float counts[VISIT_ROWS] = {0};
    cadre_tensor_t gradient = {
        .dtype = CADRE_F32, .rank = 1, .shape = {VISIT_ROWS}, .data = counts};
    const cadre_tensor_t *x = NULL;
    int status = find(invocation, "x", &x);
    for (int64_t i = 0; status == 0 && i < x->shape[0]; i++) {
        int64_t row = (int64_t)column(x, i);
        if (row < 0 || row >= VISIT_ROWS) {
            return cadre_invocation_fail(invocation, CADRE_EINVALID, "row %d", (int)row);
        }
        counts[row] += 1;
    }
    return status == 0 ? cadre_invocation_push(invocation, "visits", &gradient) : status;
}

static int
tally(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float sum = 0;
    float one = 1;
    cadre_tensor_t correct = {.dtype = CADRE_F32, .rank = 0, .data = &sum};
    cadre_tensor_t loss = {.dtype = CADRE_F32, .rank = 0, .data = &one};
    const cadre_tensor_t *x = NULL;
    int status = find(invocation, "x", &x);
    for (int64_t i = 0; status == 0 && i < x->shape[0]; i++) {
        sum += column(x, i);
    }
    if (status == 0) {
        status = cadre_invocation_set_result(invocation, "loss", &loss);
    }
    return status == 0 ? cadre_invocation_set_result(invocation, "correct", &correct) : status;
}

static int
push(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *gradient = NULL;
    int status = find(invocation, "gradient", &gradient);
    return status == 0 ? cadre_invocation_push(invocation, "wide", gradient) : status;
}

static int
fail(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char text[PATH_MAX];
    int status = find_text(invocation, "text", text);
    return status == 0 ? cadre_invocation_fail(invocation, CADRE_EFUNCTION, "%s", text) : status;
}

static int
hold(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int status = wait_for_release(invocation, true);
    return status == 0 ? push_all(invocation, 1.0f) : status;
}

/* Work that takes no CPU, so that a worker which is stopped now and then is slow at it. */
static int
toil(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    for (int i = 0; i < TOIL_NAPS; i++) {
        if (cadre_invocation_is_cancelled(invocation)) {
            return CADRE_ECANCELLED;
        }
        poll(NULL, 0, TOIL_NAP_MS);
    }
    return push_all(invocation, 1.0f);
}

static int
fail_when(cadre_invocation_t *invocation, void *state)
{
    int status = wait_for_release(invocation, false);
    return status == 0 ? fail(invocation, state) : status;
}

static int
results(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int64_t whole[] = {1, 20, INT64_C(1) << 40};
    float half = 0.5f;
    char text[] = "several";
    cadre_tensor_t tensors[] = {
        {.dtype = CADRE_I64, .rank = 1, .shape = {3}, .data = whole},
        {.dtype = CADRE_F32, .rank = 0, .data = &half},
        {.dtype = CADRE_U8, .rank = 1, .shape = {sizeof(text)}, .data = text},
    };
    int status = cadre_invocation_set_result(invocation, "whole", &tensors[0]);
    if (status == 0) {
        status = cadre_invocation_set_result(invocation, "half", &tensors[1]);
    }
    return status == 0 ? cadre_invocation_set_result(invocation, "text", &tensors[2]) : status;
}

static int
big(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const int64_t shape[] = {BIG_BYTES};
    cadre_tensor_t value = {.data = NULL};
    int status = cadre_tensor_init(&value, CADRE_U8, shape, 1);
    if (status == 0) {
        memset(value.data, 1, BIG_BYTES);
        status = cadre_invocation_set_result(invocation, "big", &value);
    }
    cadre_tensor_fini(&value);
    return status;
}

static int
echo(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return give(invocation, "value", "value");
}

static int
labels(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return give(invocation, "y", "labels");
}

static int
read_wide(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *value = NULL;
    int status = cadre_invocation_pull(invocation, "wide", &value);
    return status == 0 ? cadre_invocation_set_result(invocation, "wide", value) : status;
}

static int
push_nan(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return push_all(invocation, NAN);
}

static int
push_shape(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float values[WIDE_ROWS + 1] = {0};
    cadre_tensor_t gradient = {
        .dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS + 1}, .data = values};
    return cadre_invocation_push(invocation, "wide", &gradient);
}

static int
push_name(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float value = 1;
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 0, .data = &value};
    return cadre_invocation_push(invocation, "nowhere", &gradient);
}

static int
add_batches(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    static const char *const names[] = {"x", "x1", "x2"};
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        const cadre_tensor_t *x = NULL;
        int status = find(invocation, names[i], &x);
        for (int64_t row = 0; status == 0 && row < x->shape[0]; row++) {
            sum += column(x, row);
        }
        if (status < 0) {
            return status;
        }
    }
    return push_all(invocation, sum);
}

static int
add_named(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char name[PATH_MAX];
    float ones[WIDE_ROWS];
    const cadre_tensor_t *value = NULL;
    bool waits = cadre_invocation_argument(invocation, "started") != NULL;
    int status = waits ? wait_for_release(invocation, true) : 0;
    status = status == 0 ? find_text(invocation, "name", name) : status;
    status = status == 0 ? cadre_invocation_pull(invocation, name, &value) : status;
    if (status < 0) {
        return status;
    }
    cadre_tensor_t gradient = *value;
    gradient.data = ones;
    for (int64_t i = 0; i < cadre_tensor_count(value) && i < WIDE_ROWS; i++) {
        ones[i] = 1;
    }
    status = cadre_invocation_set_result(invocation, "value", value);
    status = status == 0 ? cadre_invocation_push(invocation, name, &gradient) : status;
    return status == 0 ? push_all(invocation, 1.0f) : status;
}

/* Rows 7, 3 and 7 of the variable named by argument "name". */
static int
touch_rows(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char name[PATH_MAX];
    static const int64_t ids[] = {7, 3, 7};
    const cadre_tensor_t *rows = NULL;
    int status = find_text(invocation, "name", name);
    status = status == 0 ? cadre_invocation_pull_rows(invocation, name, ids, 3, &rows) : status;
    status = status == 0 ? cadre_invocation_set_result(invocation, "rows", rows) : status;
    return status == 0 ? cadre_invocation_push_rows(invocation, name, ids, 3, rows) : status;
}

static int
push_numbers(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    static const char *const names[] = {"f32", "f64", "i32", "i64"};
    double number = 0;
    int status = cadre_tensor_number(cadre_invocation_argument(invocation, "number"), &number);
    for (int i = 0; i < 4 && status == 0; i++) {
        status = cadre_invocation_push_number(invocation, names[i], number);
    }
    return status;
}

static int
die(cadre_invocation_t *invocation, void *state)
{
    (void)invocation, (void)state;
    kill(getpid(), SIGKILL);
    return 0;
}

int
cadre_native_register(cadre_registry_t *registry)
{
    static const struct {
        const char *name;
        cadre_native_t function;
    } functions[] = {
        {"add_one", add_one},
        {"add_steps", add_steps},
        {"add_batch", add_batch},
        {"visit", visit},
        {"tally", tally},
        {"push", push},
        {"fail", fail},
        {"hold", hold},
        {"toil", toil},
        {"fail_when", fail_when},
        {"results", results},
        {"big", big},
        {"echo", echo},
        {"labels", labels},
        {"read", read_wide},
        {"push_nan", push_nan},
        {"push_shape", push_shape},
        {"push_name", push_name},
        {"add_named", add_named},
        {"touch_rows", touch_rows},
        {"push_numbers", push_numbers},
        {"die", die},
        {"add_batches", add_batches},
    };
    int status = functions_register_values(registry);
    for (size_t i = 0; status == 0 && i < sizeof(functions) / sizeof(functions[0]); i++) {
        status = cadre_registry_add(registry, functions[i].name, functions[i].function, NULL);
    }
    return status;
}
