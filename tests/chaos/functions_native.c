/*
 * The native functions of the chaos tests. Each adds 1 to every element of "alpha" and "beta" per
 * step, so that any update lost, doubled or torn shows in the values:
 *
 * - tick: one step
 * - ticks: TICKS_STEPS of them, each waiting for the one before
 * - slow: one step, and some time between pull and push, so that faults find closures at work
 *
 * These pull "alpha" first and fail when a part of it is a mixture of two versions.
 *
 * Under the names tick_table, ticks_table and slow_table they add 1 to rows of the table "rows",
 * too: to all of those that every update names, and to one of many.
 *
 * - beat: adds 1 to the one element of the f32 variable that argument "variable" (u8) names
 */
#include <cadre/worker.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/chaos/board.h"

enum {
    SLOW_MS = 10, /* at least; at most three times as long */
    BEAT_NAME_SIZE = 64,
};

/* The gradients of step `step` for the table: its optimizer takes them away. */
static int
push_rows(cadre_invocation_t *invocation, int step)
{
    static const float minus_one = -1;
    int64_t keys[TABLE_FIXED + 1];
    float gradients[(TABLE_FIXED + 1) * TABLE_DIM];
    const uint64_t drawn = cadre_invocation_seed(invocation) + (uint64_t)step;
    for (int i = 0; i < TABLE_FIXED; i++) {
        keys[i] = i;
    }
    keys[TABLE_FIXED] = TABLE_FIRST + (int64_t)(drawn % TABLE_SPREAD);
    for (int i = 0; i < (TABLE_FIXED + 1) * TABLE_DIM; i++) {
        gradients[i] = minus_one;
    }
    cadre_tensor_t tensor = {
        .dtype = CADRE_F32, .rank = 2, .shape = {TABLE_FIXED + 1, TABLE_DIM}, .data = gradients};
    return cadre_invocation_push_rows(invocation, "rows", keys, TABLE_FIXED + 1, &tensor);
}

static int
push_ones(cadre_invocation_t *invocation, int64_t alpha_rows)
{
    float *alpha = malloc((size_t)alpha_rows * sizeof(*alpha));
    int64_t beta[BETA_ROWS];
    if (!alpha) {
        return cadre_invocation_fail(invocation, CADRE_ENOMEMORY, "no memory");
    }
    for (int64_t i = 0; i < alpha_rows; i++) {
        alpha[i] = 1.0f;
    }
    for (int i = 0; i < BETA_ROWS; i++) {
        beta[i] = 1;
    }
    cadre_tensor_t one = {.dtype = CADRE_F32, .rank = 1, .shape = {alpha_rows}, .data = alpha};
    cadre_tensor_t other = {.dtype = CADRE_I64, .rank = 1, .shape = {BETA_ROWS}, .data = beta};
    int status = cadre_invocation_push(invocation, "alpha", &one);
    if (status == 0) {
        status = cadre_invocation_push(invocation, "beta", &other);
    }
    free(alpha);
    return status;
}

/* Every update adds 1 to every element, so a part of one version has one value, and along the rows
 * the value changes where parts meet at most. */
static int
pull_whole(cadre_invocation_t *invocation, int64_t *alpha_rows)
{
    const cadre_tensor_t *alpha = NULL;
    int status = cadre_invocation_pull(invocation, "alpha", &alpha);
    if (status < 0) {
        return status;
    }
    const float *values = alpha->data;
    int changes = 0;
    *alpha_rows = cadre_tensor_count(alpha);
    for (int64_t i = 1; i < *alpha_rows; i++) {
        changes += values[i] < values[i - 1] || values[i] > values[i - 1];
    }
    if (changes >= ALPHA_PARTS) {
        status = cadre_invocation_fail(invocation, CADRE_EFUNCTION,
                                       "a part of alpha is a mixture of versions");
    }
    return status;
}

/* The update of one step; with a table where the function was registered with a state. */
static int
push_step(cadre_invocation_t *invocation, int64_t alpha_rows, const void *state, int step)
{
    int status = push_ones(invocation, alpha_rows);
    return status == 0 && state ? push_rows(invocation, step) : status;
}

static int
steps(cadre_invocation_t *invocation, const void *state, int count)
{
    int64_t rows = 0;
    int status = pull_whole(invocation, &rows);
    for (int i = 0; status == 0 && i < count; i++) {
        status = push_step(invocation, rows, state, i);
        if (status == 0 && i + 1 < count) {
            status = cadre_invocation_flush(invocation);
        }
    }
    return status;
}

static int
tick(cadre_invocation_t *invocation, void *state)
{
    return steps(invocation, state, 1);
}

static int
ticks(cadre_invocation_t *invocation, void *state)
{
    return steps(invocation, state, TICKS_STEPS);
}

static int
slow(cadre_invocation_t *invocation, void *state)
{
    int64_t rows = 0;
    int status = pull_whole(invocation, &rows);
    poll(NULL, 0, SLOW_MS + (int)(cadre_invocation_seed(invocation) % (2 * SLOW_MS)));
    return status == 0 ? push_step(invocation, rows, state, 0) : status;
}

static int
beat(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    char name[BEAT_NAME_SIZE];
    float one = 1;
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 1, .shape = {1}, .data = &one};
    const cadre_tensor_t *variable = cadre_invocation_argument(invocation, "variable");
    if (!variable) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "no argument variable");
    }
    snprintf(name, sizeof(name), "%.*s", (int)cadre_tensor_count(variable),
             (const char *)variable->data);
    return cadre_invocation_push(invocation, name, &gradient);
}

int
cadre_native_register(cadre_registry_t *registry)
{
    static int has_table; /* its address says so */
    static const struct {
        const char *name;
        cadre_native_t function;
        void *state;
    } functions[] = {{"tick", tick, NULL},
                     {"ticks", ticks, NULL},
                     {"slow", slow, NULL},
                     {"beat", beat, NULL},
                     {"tick_table", tick, &has_table},
                     {"ticks_table", ticks, &has_table},
                     {"slow_table", slow, &has_table}};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof(functions) / sizeof(functions[0]); i++) {
        status = cadre_registry_add(registry, functions[i].name, functions[i].function,
                                    functions[i].state);
    }
    return status;
}
