/* The function of count.c, for the workers: cadre-worker --native .../count_native.so */
#include <cadre/worker.h>

static int
add_one(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    return cadre_invocation_push_number(invocation, "total", 1);
}

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "add_one", add_one, NULL);
}
