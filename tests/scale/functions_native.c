/* The native functions of the experiments: sleep_add sleeps for argument "ms" (i64), then adds 1 to
 * the variable "total"; move_all pulls the variable "w" (f32) and pushes a gradient of ones; grow
 * adds to each element of it what it is, and the weight of its place. */
#include <cadre/worker.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/scale/functions.h"

static int
sleep_add(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *ms = cadre_invocation_argument(invocation, "ms");
    poll(NULL, 0, (int)*(const int64_t *)ms->data);
    float one = 1;
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 0, .data = &one};
    return cadre_invocation_push(invocation, "total", &gradient);
}

static int
move_all(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *w = NULL;
    int status = cadre_invocation_pull(invocation, "w", &w);
    if (status < 0) {
        return status;
    }
    size_t count = 1;
    for (int i = 0; i < w->rank; i++) {
        count *= (size_t)w->shape[i];
    }
    float *ones = cadre_invocation_slot_state(invocation);
    if (!ones) {
        ones = malloc(count * sizeof(*ones));
        for (size_t i = 0; ones && i < count; i++) {
            ones[i] = 1;
        }
        cadre_invocation_set_slot_state(invocation, ones, free);
    }
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = w->rank, .data = ones};
    memcpy(gradient.shape, w->shape, sizeof(gradient.shape));
    return cadre_invocation_push(invocation, "w", &gradient);
}

static int
grow(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *w = NULL;
    int status = cadre_invocation_pull(invocation, "w", &w);
    if (status < 0) {
        return status;
    }
    cadre_tensor_t gradient = {.data = NULL};
    status = cadre_tensor_init(&gradient, CADRE_F32, w->shape, w->rank);
    for (int64_t i = 0; status == 0 && i < cadre_tensor_count(w); i++) {
        ((float *)gradient.data)[i] = ((const float *)w->data)[i] + (float)scale_weight(i);
    }
    if (status == 0) {
        status = cadre_invocation_push(invocation, "w", &gradient);
    }
    cadre_tensor_fini(&gradient);
    return status;
}

int
cadre_native_register(cadre_registry_t *registry)
{
    int status = cadre_registry_add(registry, "sleep_add", sleep_add, NULL);
    status = status < 0 ? status : cadre_registry_add(registry, "grow", grow, NULL);
    return status < 0 ? status : cadre_registry_add(registry, "move_all", move_all, NULL);
}
