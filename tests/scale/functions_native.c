/* The native function of the experiments: sleep_add sleeps for argument "ms" (i64), then adds 1 to
 * the variable "total". */
#include <cadre/worker.h>
#include <poll.h>

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

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "sleep_add", sleep_add, NULL);
}
