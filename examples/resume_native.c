/* The function of resume.c, for the workers: cadre-worker --native .../resume_native.so. It takes a
 * millisecond, so that there is time to kill somebody. */
#include <cadre/worker.h>
#include <poll.h>

static int
add_number(cadre_invocation_t *invocation, void *state)
{
    (void)state;
    double number = 0;
    int status = cadre_tensor_number(cadre_invocation_argument(invocation, "number"), &number);
    if (status) {
        return cadre_invocation_fail(invocation, status, "number: %s", cadre_error_text());
    }
    poll(NULL, 0, 1);
    return cadre_invocation_push_number(invocation, "total", number);
}

int
cadre_native_register(cadre_registry_t *registry)
{
    return cadre_registry_add(registry, "add_number", add_number, NULL);
}
