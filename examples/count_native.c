/* The function of count.c, for the workers: cadre-worker --native .../count_native.so */
#include <cadre/worker.h>

static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    float one = 1.0f;
    cadre_tensor_t gradient = {.dtype = CADRE_F32, .rank = 0, .data = &one};
    return cadre_invocation_push(invocation, "total", &gradient);
}

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "add_one", add_one, NULL);
}
