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

static int
steps(cadre_invocation_t *invocation, int count)
{
    int64_t rows = 0;
    int status = pull_whole(invocation, &rows);
    for (int i = 0; status == 0 && i < count; i++) {
        status = push_ones(invocation, rows);
        if (status == 0 && i + 1 < count) {
            status = cadre_invocation_flush(invocation);
        }
    }
    return status;
}

static int
tick(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return steps(invocation, 1);
}

static int
ticks(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return steps(invocation, TICKS_STEPS);
}

static int
slow(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    int64_t rows = 0;
    int status = pull_whole(invocation, &rows);
    poll(NULL, 0, SLOW_MS + (int)(cadre_invocation_seed(invocation) % (2 * SLOW_MS)));
    return status == 0 ? push_ones(invocation, rows) : status;
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
    int status = cadre_registry_add(registry, "tick", tick, NULL);
    if (status == 0) {
        status = cadre_registry_add(registry, "ticks", ticks, NULL);
    }
    if (status == 0) {
        status = cadre_registry_add(registry, "slow", slow, NULL);
    }
    return status == 0 ? cadre_registry_add(registry, "beat", beat, NULL) : status;
}
