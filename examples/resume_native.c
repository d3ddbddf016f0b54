/* The function of resume.c, for the workers: cadre-worker --native .../resume_native.so. It takes a
 * millisecond, so that there is time to kill somebody. */
#include <cadre/worker.h>
#include <poll.h>

static int
add_number(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    const cadre_tensor_t *number = cadre_invocation_argument(invocation, "number");
    if (!number) {
        return cadre_invocation_fail(invocation, CADRE_EINVALID, "no argument number");
    }
    poll(NULL, 0, 1);
    double value = (double)*(const float *)number->data;
    cadre_tensor_t gradient = {.dtype = CADRE_F64, .rank = 0, .data = &value};
    return cadre_invocation_push(invocation, "total", &gradient);
}

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "add_number", add_number, NULL);
}
