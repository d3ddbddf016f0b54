/* The native functions of the experiments: sleep_add sleeps for argument "ms" (i64), then adds 1 to
 * the variable "total"; move_all pulls the variable "w" (f32) and pushes a gradient of ones. */
#include <cadre/worker.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

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

int
cadre_native_register(cadre_registry_t *registry)
{
    int status = cadre_registry_add(registry, "sleep_add", sleep_add, NULL);
    return status < 0 ? status : cadre_registry_add(registry, "move_all", move_all, NULL);
}
