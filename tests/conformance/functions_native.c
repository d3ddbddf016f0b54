/* The native functions of the conformance tests: see functions.h. */
#include <cadre/worker.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/conformance/functions.h"

enum { LOOK_AGAIN_MS = 2 };

static int
push_all(cadre_invocation_t *invocation, float value)
{
    float values[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        values[i] = value;
    }
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = values};
    return cadre_invocation_push(invocation, "wide", &gradient);
}

static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return push_all(invocation, 1.0f);
}

/* The argument `name`, or a failure that says that it is missing. */
static int
find(cadre_invocation_t *invocation, const char *name, const cadre_tensor_t **argument)
{
    *argument = cadre_invocation_argument(invocation, name);
    return *argument ? 0
                     : cadre_invocation_fail(invocation, CADRE_EINVALID, "no argument %s", name);
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
        status = cadre_invocation_result(invocation, "loss", &loss);
    }
    return status == 0 ? cadre_invocation_result(invocation, "correct", &correct) : status;
}

static int
push(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *gradient = NULL;
    int status = find(invocation, "gradient", &gradient);
    return status == 0 ? cadre_invocation_push(invocation, "wide", gradient) : status;
}

/* The text of the u8 argument `name`, cut to PATH_MAX - 1 characters. */
static int
find_text(cadre_invocation_t *invocation, const char *name, char text[PATH_MAX])
{
    const cadre_tensor_t *argument = NULL;
    int status = find(invocation, name, &argument);
    if (status == 0) {
        snprintf(text, PATH_MAX, "%.*s", (int)cadre_tensor_count(argument),
                 (const char *)argument->data);
    }
    return status;
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
tell_started(cadre_invocation_t *invocation, const char *path)
{
    char line[32];
    int length =
        snprintf(line, sizeof(line), "worker %u\n", cadre_invocation_worker_index(invocation));
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length) {
        return cadre_invocation_fail(invocation, CADRE_EIO, "%s cannot be written", path);
    }
    close(fd);
    return 0;
}

static int
hold(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char started[PATH_MAX];
    char release[PATH_MAX];
    int status = find_text(invocation, "started", started);
    if (status == 0) {
        status = find_text(invocation, "release", release);
    }
    if (status == 0) {
        status = tell_started(invocation, started);
    }
    while (status == 0 && access(release, F_OK) != 0) {
        if (cadre_invocation_cancelled(invocation)) {
            return CADRE_ECANCELLED;
        }
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
    return status == 0 ? push_all(invocation, 1.0f) : status;
}

static int
fail_when(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char started[PATH_MAX];
    char release[PATH_MAX];
    int status = find_text(invocation, "started", started);
    if (status == 0) {
        status = find_text(invocation, "release", release);
    }
    if (status == 0) {
        status = tell_started(invocation, started);
    }
    while (status == 0 && access(release, F_OK) != 0) {
        poll(NULL, 0, LOOK_AGAIN_MS);
    }
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
    int status = cadre_invocation_result(invocation, "whole", &tensors[0]);
    if (status == 0) {
        status = cadre_invocation_result(invocation, "half", &tensors[1]);
    }
    return status == 0 ? cadre_invocation_result(invocation, "text", &tensors[2]) : status;
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
        status = cadre_invocation_result(invocation, "big", &value);
    }
    cadre_tensor_fini(&value);
    return status;
}

/* Gives the argument back as a result. */
static int
give(cadre_invocation_t *invocation, const char *argument, const char *result)
{
    const cadre_tensor_t *value = NULL;
    int status = find(invocation, argument, &value);
    return status == 0 ? cadre_invocation_result(invocation, result, value) : status;
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
    return status == 0 ? cadre_invocation_result(invocation, "wide", value) : status;
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

/* --- what stays on a worker --- */

typedef struct {
    int64_t index;
    int64_t count;
} place_t;

/* Gives a whole number as a result. */
static int
give_number(cadre_invocation_t *invocation, const char *name, int64_t number)
{
    cadre_tensor_t value = {.dtype = CADRE_I64, .rank = 0, .data = &number};
    return cadre_invocation_result(invocation, name, &value);
}

static int
build_place(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    place_t *place = malloc(sizeof(*place));
    if (!place) {
        return CADRE_EFUNCTION;
    }
    place->index = cadre_invocation_worker_index(invocation);
    place->count = cadre_invocation_worker_count(invocation);
    return cadre_invocation_resource_put(invocation, place, free);
}

static int
tell_place(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const place_t *place = cadre_invocation_resource(invocation, "place");
    if (!place || cadre_invocation_resource_put(invocation, NULL, NULL) != CADRE_ESTATE) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "no place");
    }
    int status = give_number(invocation, "built_index", place->index);
    if (status == 0) {
        status = give_number(invocation, "built_count", place->count);
    }
    if (status == 0) {
        status = give_number(invocation, "index", cadre_invocation_worker_index(invocation));
    }
    return status == 0 ? give_number(invocation, "count", cadre_invocation_worker_count(invocation))
                       : status;
}

static int
build(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char path[PATH_MAX];
    float ones[WIDE_ROWS];
    for (int i = 0; i < WIDE_ROWS; i++) {
        ones[i] = 1;
    }
    cadre_tensor_t value = {.dtype = CADRE_F32, .rank = 1, .shape = {WIDE_ROWS}, .data = ones};
    int status = 0;
    if (cadre_invocation_argument(invocation, "started")) {
        find_text(invocation, "started", path);
        status = tell_started(invocation, path);
    }
    if (status == 0 && cadre_invocation_argument(invocation, "release")) {
        find_text(invocation, "release", path);
        while (access(path, F_OK) != 0 && !cadre_invocation_cancelled(invocation)) {
            poll(NULL, 0, LOOK_AGAIN_MS);
        }
    }
    return status == 0 ? cadre_invocation_result(invocation, "value", &value) : status;
}

static int
push_built(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *ones = NULL;
    int status = find(invocation, "ones.value", &ones);
    return status == 0 ? cadre_invocation_push(invocation, "wide", ones) : status;
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

/* --- what stays on a slot, and in the worker --- */

static char remembered[PATH_MAX]; /* the file that is written to at exit */

static void
append(const char *path, const char *line)
{
    int fd = *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    ssize_t written = fd < 0 ? 0 : write(fd, line, strlen(line));
    (void)written; /* the test sees that it is missing */
    if (fd >= 0) {
        close(fd);
    }
}

static void
forget_slot(void *pointer)
{
    int64_t *calls = pointer;
    char line[32];
    snprintf(line, sizeof(line), "slot %d\n", (int)*calls);
    append(remembered, line);
    free(calls);
}

static void
forget_worker(void *pointer)
{
    append(pointer, "worker\n");
}

static int
remember(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int64_t *calls = cadre_invocation_slot_state(invocation);
    if (!calls) {
        calls = calloc(1, sizeof(*calls));
        cadre_invocation_set_slot_state(invocation, calls, forget_slot);
    }
    (*calls)++;
    return find_text(invocation, "path", remembered);
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
        {"fail_when", fail_when},
        {"results", results},
        {"big", big},
        {"echo", echo},
        {"labels", labels},
        {"read", read_wide},
        {"push_nan", push_nan},
        {"push_shape", push_shape},
        {"push_name", push_name},
        {"die", die},
        {"remember", remember},
        {"build_place", build_place},
        {"tell_place", tell_place},
        {"build", build},
        {"push_built", push_built},
        {"add_batches", add_batches},
    };
    int status = cadre_registry_at_exit(registry, forget_worker, remembered);
    for (size_t i = 0; status == 0 && i < sizeof(functions) / sizeof(functions[0]); i++) {
        status = cadre_registry_add(registry, functions[i].name, functions[i].function, NULL);
    }
    return status;
}
